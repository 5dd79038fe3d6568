package relay

import (
	"strconv"
	"testing"
)

func TestHost(t *testing.T) {
	for _, test := range []struct {
		text string
		want string // name or address, and port; empty: none
	}{
		{"a.example", "a.example 0"}, {"A.EXAMPLE", "a.example 0"}, {"a.example.", "a.example 0"}, {"a.example:80", "a.example 80"}, {"xn--bcher-kva.example", "xn--bcher-kva.example 0"},
		{"_srv.a-b.example", "_srv.a-b.example 0"}, {"8.0.0.1", "8.0.0.1 0"}, {"8.0.0.1:80", "8.0.0.1 80"}, {"[2600::1]", "2600::1 0"}, {"[2600:0::1]:80", "2600::1 80"},
		{"", ""}, {".", ""}, {":80", ""}, {"a.example:", ""}, {"a.example:0", ""}, {"a.example:080", ""}, {"a.example:65536", ""}, {"a.example:+80", ""}, {"a.example:80:80", ""}, {"a..example", ""},
		{".example", ""}, {"a.example..", ""}, {"a b", ""}, {"a@b", ""}, {"a/b", ""}, {"a%2e", ""}, {"a\x00", ""}, {"a\\b", ""}, {"bücher.example", ""}, {"*.example", ""},
		{"127.1", ""}, {"0x7f.1", ""}, {"2130706433", ""}, {"0177.0.0.1", ""}, {"8.0.0.1.", ""}, {"a.0x1", ""}, {"2600::1", ""}, {"[2600::1", ""}, {"[8.0.0.1]", ""}, {"[fe80::1%lo]", ""}, {"[2600::1]x", ""},
	} {
		said, ok := parseHost(test.text)
		got := ""
		if ok {
			got = target{name: said.name, addr: said.addr}.host() + " " + strconv.Itoa(int(said.port))
		}
		if got != test.want {
			t.Errorf("%q is %q, want %q", test.text, got, test.want)
		}
	}
}
