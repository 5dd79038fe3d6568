package python

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/policy"
)

// What an interpreter has compiled is executed by an interpreter of the same kind, and by no other: that one takes the text.
func TestCompiled(t *testing.T) {
	// One of the names that code may ask for says whose driver it is.
	tell := policy.Program{Code: "import __main__\n_return = __main__.RESULT_MARKER"}
	whole := driver
	t.Cleanup(func() { driver = whole })
	all := interpreters(t)
	compiled := make([]Compiled, len(all))
	for i, python := range all {
		driver = strings.Replace(whole, "__DR_SANDBOX_RESULT__:", "compiled", 1)
		compiled[i] = compiledBy(t, python)
		driver = whole
	}
	for i, python := range all {
		for j, c := range compiled {
			python.compiled = c
			want := `"__DR_SANDBOX_RESULT__:"`
			if all[i].minor == all[j].minor {
				want = `"compiled"`
			}
			if got := runProgram(t, python, tell); string(got.result.Value) != want || got.stderr != "" {
				t.Errorf("3.%d with what 3.%d compiled: %s, %s", python.minor, all[j].minor, got.result.Value, got.stderr)
			}
		}
	}
}

func TestReadCompiled(t *testing.T) {
	if c, err := ReadCompiled([]byte(`"` + hex.EncodeToString([]byte("\xa7\x0d\r\ncode")) + `"`)); err != nil || c.None() || c.withText("text") != "\xa7\x0d\r\ncodetext" || c.textAt() != 8 {
		t.Errorf("%+v, %v", c, err)
	}
	if !(Compiled{}).None() {
		t.Error("none isn't none")
	}
	for _, bad := range []string{``, `null`, `7`, `"x"`, `"a70d0d0"`, `""`, `"a70d0d0a"`, `"a70d0a0d00"`, `["a70d0d0a00"]`, `"` + strings.Repeat("00", mostCompiled+1) + `"`} {
		if c, err := ReadCompiled([]byte(bad)); err == nil || !c.None() {
			t.Errorf("%.40s is taken: %v", bad, err)
		}
	}
}

// FuzzReadCompiled: what is taken is all of it, magic number and code, and within bounds.
func FuzzReadCompiled(f *testing.F) {
	for _, seed := range []string{`"a70d0d0a00"`, `"A70D0D0A"`, `null`, `"a70d0d0a0"`, `["a70d0d0a00"]`, `"\u0061"`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		c, err := ReadCompiled(value)
		if err != nil {
			if !c.None() {
				t.Fatalf("%q is an error and is taken", value)
			}
			return
		}
		if c.None() || len(c.magic) != magicSize || len(c.code) > mostCompiled || c.withText("text")[c.textAt():] != "text" {
			t.Errorf("%q: %+v", value, c)
		}
	})
}
