package dropin

import (
	"errors"
	"math"
	"testing"
	"time"
)

func TestInteger(t *testing.T) {
	for text, want := range map[string]int64{
		"": -7, "abc": -7, "1.5": -7, "0x10": -7, "1e3": -7, "_1": -7, "1_": -7, "1__0": -7, "+": -7, "-": -7, "+-1": -7, "\u0661": -7,
		" 25 ": 25, "1_0": 10, "+12": 12, "-3": -3, "0": 0, "\t7\n": 7, "99999999999999999999": math.MaxInt64,
	} {
		if got := integer(text, -7); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

func TestContract(t *testing.T) {
	for _, row := range []struct {
		env    map[string]string
		fault  string
		code   string
		inputs string
		time   time.Duration
		procs  uint64
	}{
		{env: map[string]string{}, fault: "DR_SANDBOX_CODE_B64 not set"},
		{env: map[string]string{codeVariable: "eA"}, fault: "Traceback (most recent call last):\nbinascii.Error: Incorrect padding: DR_SANDBOX_CODE_B64"},
		{env: map[string]string{codeVariable: "eA=="}, code: "x", inputs: "{}", time: time.Hour, procs: 4096},
		{env: map[string]string{codeVariable: "77u/eA==", inputsVariable: "MQ==", timeoutVariable: "5", procsVariable: "9"}, code: "x", inputs: "1", time: 5 * time.Second, procs: 9},
		{env: map[string]string{codeVariable: "eA==", timeoutVariable: "0", procsVariable: "0"}, code: "x", inputs: "{}", time: 24 * time.Hour, procs: 4096},
		{env: map[string]string{codeVariable: "eA==", codeFileVariable: "/dev/null"}, fault: "DR_SANDBOX_CODE_B64 and DR_SANDBOX_CODE_FILE are both set"},
		{env: map[string]string{codeFileVariable: "/no/such"}, fault: "DR_SANDBOX_CODE_FILE: open /no/such: no such file or directory"},
	} {
		got, err := readContract(func(name string) string { return row.env[name] })
		var bad *badContract
		if row.fault != "" {
			if !errors.As(err, &bad) || bad.text != row.fault {
				t.Errorf("%v: %v, want %s", row.env, err, row.fault)
			}
			continue
		}
		if err != nil || got.program.Code != row.code || string(got.program.Inputs) != row.inputs || got.timeout != row.time || got.procs != row.procs {
			t.Errorf("%v: %+v, %v", row.env, got, err)
		}
	}
}

func TestEndsLine(t *testing.T) {
	for _, end := range []string{"\n", "\r", "\r\n", "\v", "\f", "\x1c", "\x1d", "\x1e", "\u0085", "\u2028", "\u2029"} {
		if !endsLine([]byte("a" + end)) {
			t.Errorf("%q ends no line", end)
		}
	}
	for _, text := range []string{"a", "a\x1f", "a\x00", "\x85", "\xa8", " "} {
		if endsLine([]byte(text)) {
			t.Errorf("%q ends a line", text)
		}
	}
}
