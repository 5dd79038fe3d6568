package policy

import (
	"errors"
	"testing"
)

func TestParseSandbox(t *testing.T) {
	for _, test := range []struct{ body, field string }{
		{``, ""},
		{`{}`, ""},
		{`{"network":{"egress":[{"action":"allow","target":"example.com","ports":[443]}]}}`, ""},
		{`{"networks":{}}`, "networks"},
		{`{"network":{"defaultAction":"alow"}}`, "network.defaultAction"},
		{`{"network":{"egress":[{"action":"allow","target":"https://example.com"}]}}`, "network.egress[0].target"},
		{`{"network":{"egress":[{"action":"allow"}]}}`, "network.egress[0].target"},
	} {
		request, err := ParseSandbox([]byte(test.body))
		checkField(t, test.body, err, test.field)
		if err == nil && request.Action != ActionSandbox {
			t.Errorf("%s: action %q", test.body, request.Action)
		}
	}
}

func TestParseNetworkChange(t *testing.T) {
	for _, test := range []struct{ sandbox, body, field string }{
		{"box", `{"defaultAction":"deny"}`, ""},
		{"box", `{}`, ""},
		{"", `{}`, "sandbox"},
		{"../box", `{}`, "sandbox"},
		{"box", `{"egress":[{"action":"allow","target":"*"}]}`, "network.egress[0].target"},
		{"box", ``, "network"},
	} {
		request, err := ParseNetworkChange(test.sandbox, []byte(test.body))
		checkField(t, test.body, err, test.field)
		if err == nil && (request.Action != ActionNetwork || request.Sandbox != test.sandbox) {
			t.Errorf("%s: %+v", test.body, request)
		}
	}
}

// TestNetworkInherited: nothing said is the named sandbox's network; an empty spec is a spec, and denies everything.
func TestNetworkInherited(t *testing.T) {
	for body, want := range map[string]bool{
		`{"command":{"argv":["true"]}}`:                              false,
		`{"command":{"argv":["true"]},"sandbox":"box"}`:              true,
		`{"command":{"argv":["true"]},"sandbox":"box","network":{}}`: false,
	} {
		request, _, err := ParseExec([]byte(body))
		if err != nil || request.NetworkInherited != want {
			t.Errorf("%s: inherited %v, %v", body, request.NetworkInherited, err)
		}
	}
}

func checkField(t *testing.T, body string, err error, field string) {
	t.Helper()
	var fault *FieldError
	switch {
	case field == "" && err != nil:
		t.Errorf("%s: %v", body, err)
	case field != "" && (!errors.As(err, &fault) || fault.Field != field):
		t.Errorf("%s: %v, want an error of %s", body, err, field)
	}
}
