package policy

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// typos of a word: a letter missing, doubled, swapped with the next, the wrong case.
func typos(word string) []string {
	var typos []string
	for i := range word {
		typos = append(typos, word[:i]+word[i+1:], word[:i]+word[i:i+1]+word[i:])
		if i+1 < len(word) && word[i] != word[i+1] {
			typos = append(typos, word[:i]+word[i+1:i+2]+word[i:i+1]+word[i+2:])
		}
	}
	for _, other := range []string{strings.ToLower(word), strings.ToUpper(word), strings.ToUpper(word[:1]) + word[1:]} {
		if other != word {
			typos = append(typos, other)
		}
	}
	return typos
}

// Every enum × its typos is refused, with the right word: an unknown word must never turn into a weak default.
func TestEveryEnumTypoIsRefused(t *testing.T) {
	security := func(format string) func(string) error {
		return func(word string) error { _, err := ParseSecurityContext([]byte(fmt.Sprintf(format, word))); return err }
	}
	network := func(format string) func(string) error {
		return func(word string) error { _, err := ParseNetwork([]byte(fmt.Sprintf(format, word))); return err }
	}
	capabilities := append([]string{CapabilityAll}, capabilityNames...)
	for _, test := range []struct {
		field string
		words []string
		parse func(string) error
		rest  bool // a typo may be another right word
	}{
		{"securityContext.seccompProfile.type", seccompTypes, security(`{"seccompProfile":{"type":"%s","localhostProfile":"p"}}`), false},
		{"securityContext.procMount", []string{ProcMountDefault, ProcMountUnmasked}, security(`{"procMount":"%s"}`), false},
		{"securityContext.capabilities.add[0]", capabilities, security(`{"capabilities":{"add":["%s"]}}`), true},
		{"securityContext.capabilities.drop[0]", capabilities, security(`{"capabilities":{"drop":["%s"]}}`), true},
		{"network.defaultAction", networkActions, network(`{"defaultAction":"%s"}`), false},
		{"network.egress[0].action", networkActions, network(`{"egress":[{"action":"%s","target":"a.b"}]}`), false},
		{"language", Languages, func(word string) error { return parseRun(`{"code":"","language":"` + word + `"}`) }, false},
		{"action", []string{"exec", "run"}, func(word string) error { return parseDecide(`{"action":"` + word + `"}`) }, false},
	} {
		for _, word := range test.words {
			for _, typo := range typos(word) {
				if typo == "" {
					continue
				}
				var fault *FieldError
				err := test.parse(typo)
				if !errors.As(err, &fault) {
					t.Errorf("%s %q for %q: got %v, want a *FieldError", test.field, typo, word, err)
				} else if fault.Field != test.field || fault.Nearest != word && !test.rest || fault.Nearest == "" {
					t.Errorf("%s %q: got %q, want nearest %s", test.field, typo, err, word)
				}
			}
		}
	}
}

// Every key × its typos is refused, in every object, with a right key.
func TestEveryKeyTypoIsRefused(t *testing.T) {
	for _, test := range []struct {
		typ   reflect.Type
		body  string
		parse func(string) error
	}{
		{reflect.TypeFor[wireExec](), `{"%s":0}`, parseExec},
		{reflect.TypeFor[wireRun](), `{"%s":0}`, parseRun},
		{reflect.TypeFor[wireCommand](), `{"command":{"%s":0}}`, parseExec},
		{reflect.TypeFor[SecurityContext](), `{"securityContext":{"%s":0}}`, parseExec},
		{reflect.TypeFor[Capabilities](), `{"securityContext":{"capabilities":{"%s":0}}}`, parseExec},
		{reflect.TypeFor[SeccompProfile](), `{"securityContext":{"seccompProfile":{"%s":0}}}`, parseExec},
		{reflect.TypeFor[wireNetwork](), `{"network":{"%s":0}}`, parseExec},
		{reflect.TypeFor[wireRule](), `{"network":{"egress":[{"%s":0}]}}`, parseExec},
		{reflect.TypeFor[wireLimits](), `{"limits":{"%s":0}}`, parseExec},
	} {
		names, _ := jsonNames(test.typ)
		if len(names) < 2 {
			t.Fatalf("%s has the keys %q", test.typ, names)
		}
		for _, name := range names {
			for _, typo := range typos(name) {
				var fault *FieldError
				err := test.parse(fmt.Sprintf(test.body, typo))
				if !errors.As(err, &fault) || fault.Nearest != name || !strings.HasPrefix(err.Error(), fault.Field+": unknown field; nearest is ") {
					t.Errorf("%s %q: got %v, want the nearest to be %s", test.typ, typo, err, name)
				}
			}
		}
	}
}

func TestNearest(t *testing.T) {
	words := []string{"argv", "env", "cwd", "stdin", "stdinBase64"}
	for written, want := range map[string]string{
		"argv": "argv", "ARGV": "argv", "agrv": "argv", "args": "argv", "stdinbase64": "stdinBase64", "stdin64": "stdin",
		"directory": "", "": "", "x": "", strings.Repeat("argv", 1000): "",
	} {
		if got := Nearest(written, words); got != want {
			t.Errorf("nearest to %q is %q, want %q", written, got, want)
		}
	}
}

func TestFieldErrorPaths(t *testing.T) {
	for path, want := range map[string]string{
		member("", "a"):                          "a",
		member("a", "b"):                         "a.b",
		member("a", "b.c"):                       `a["b.c"]`,
		member("a", "\x1b[2J"):                   `a["\x1b[2J"]`,
		member("a", strings.Repeat("é", 40)):     `a["` + strings.Repeat("é", 32) + `"…]`,
		member("a", "x"+strings.Repeat("é", 40)): `a["x` + strings.Repeat("é", 31) + `"…]`,
		element(element("a", 0), 1):              "a[0][1]",
		(&FieldError{Message: "bad"}).Error():    "bad",
		(&FieldError{Field: "a", Message: "bad", Nearest: "good"}).Error(): "a: bad; nearest is good",
		printable("a\x1b[31m\xff" + "é"):                                   "a?[31m?é",
		clip(strings.Repeat("9", longestQuote+10)):                         strings.Repeat("9", longestQuote) + "…",
	} {
		if path != want {
			t.Errorf("got %s, want %s", path, want)
		}
	}
}
