package policy

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"unicode"
)

// checkFault holds what is true of every fault: it is a *FieldError that fits on a terminal line whatever the body has in it.
func checkFault(t *testing.T, err error) {
	t.Helper()
	var fault *FieldError
	if !errors.As(err, &fault) || fault.Message == "" {
		t.Fatalf("got %#v, want a *FieldError with a message", err)
	}
	text := fault.Error()
	if len(text) > 4096 || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		t.Fatalf("a fault that doesn't fit on a line: %q", text)
	}
}

// checkRequest holds what is true of every request that was parsed.
func checkRequest(t *testing.T, request Request) {
	t.Helper()
	if err := request.Validate(); err != nil {
		t.Fatalf("parsed, but doesn't validate: %v", err)
	}
	if err := Within(request.SecurityContext.Defaulted(), request.SecurityContext); err != nil {
		t.Fatalf("the default form isn't within what was asked: %v", err)
	}
	if err := WithinNetwork(request.Network.Defaulted(), request.Network); err != nil {
		t.Fatalf("the default form isn't within what was asked: %v", err)
	}
	if first, again := Digest(request), Digest(request); first != again {
		t.Fatalf("two digests of one request: %s, %s", first, again)
	}
}

func FuzzParseExec(f *testing.F) {
	f.Add([]byte(`{"command":{"argv":["true"],"env":{"A":"b"},"cwd":"/","stdin":"x"},"stream":true}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		request, _, err := ParseExec(data)
		if err != nil {
			checkFault(t, err)
			return
		}
		if request.Action != ActionExec || len(request.Command.Argv) == 0 {
			t.Fatalf("parsed to %+v", request)
		}
		checkRequest(t, request)
	})
}

func FuzzParseRun(f *testing.F) {
	f.Add([]byte(`{"code":"print(inputs)","inputs":{"a":[1,"\ud800",null]},"timeoutSeconds":1.5}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		request, _, err := ParseRun(data)
		if err != nil {
			checkFault(t, err)
			return
		}
		if inputs := request.Program.Inputs; !bytes.Contains(data, inputs) && string(inputs) != "{}" {
			t.Fatalf("the inputs %s aren't the bytes that came", inputs)
		}
		checkRequest(t, request)
	})
}

func FuzzParseDecide(f *testing.F) {
	f.Add([]byte(`{"action":"exec","command":{"argv":["true"]}}`))
	f.Add([]byte(`{"action":"run","code":"","inputs":0}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		request, err := ParseDecide(data)
		if err != nil {
			checkFault(t, err)
			return
		}
		checkRequest(t, request)
	})
}

func FuzzParseSecurityContext(f *testing.F) {
	f.Add([]byte(`{"runAsUser":1000,"capabilities":{"drop":["ALL"]},"seccompProfile":{"type":"Localhost","localhostProfile":"a/b.json"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		context, err := ParseSecurityContext(data)
		if err != nil {
			checkFault(t, err)
			return
		}
		again, err := ParseSecurityContext(Canonical(context))
		if err != nil || !bytes.Equal(Canonical(again), Canonical(context)) {
			t.Fatalf("%s became %s, %v", Canonical(context), Canonical(again), err)
		}
		if Within(again, context) != nil || Within(context, again) != nil {
			t.Fatalf("%s isn't within itself", Canonical(context))
		}
	})
}

func FuzzParseNetwork(f *testing.F) {
	f.Add([]byte(`{"defaultAction":"deny","egress":[{"action":"allow","target":"*.A.test","ports":[443]},{"action":"deny","target":"10.0.0.0/8"}]}`))
	f.Add([]byte(`{"egress":[{"action":"allow","target":"0x7f.1"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		spec, err := ParseNetwork(data)
		if err != nil {
			checkFault(t, err)
			return
		}
		again, err := ParseNetwork(Canonical(spec))
		if err != nil || !bytes.Equal(Canonical(again), Canonical(spec)) {
			t.Fatalf("%s became %s, %v", Canonical(spec), Canonical(again), err)
		}
		if WithinNetwork(again, spec) != nil || WithinNetwork(spec, again) != nil {
			t.Fatalf("%s isn't within itself", Canonical(spec))
		}
	})
}

func FuzzParseLimits(f *testing.F) {
	f.Add([]byte(`{"timeoutSeconds":0.5,"outputBytes":1,"memoryBytes":2,"pids":3,"cpu":4,"cpuSeconds":0.5,"openFiles":8,"fileBytes":6}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		limits, err := ParseLimits(data)
		if err != nil {
			checkFault(t, err)
			return
		}
		if WithinLimits(limits, limits) != nil || limits.check("") != nil {
			t.Fatalf("%+v isn't within itself", limits)
		}
	})
}
