package network

import (
	"regexp"
	"testing"
)

// allowed is what the clients of the table need.
const allowed = "allow a.example.net 80 443, allow b.example.net 443, allow h2.example.net 443, allow six.example.net 443, allow both.example.net 443," +
	"allow big.example.net 443, allow redirect.example.net 80 443, allow git.example.net 443, allow db.example.net 5432, allow lines.example.net 7000"

func TestClientsThroughTheFence(t *testing.T) {
	w := New(t)
	s := newSandbox(t, w, allowed)
	for _, client := range clients {
		t.Run(client.name, func(t *testing.T) {
			if got := s.run(t, client.command...); !regexp.MustCompile(client.says).MatchString(got) {
				t.Errorf("%s\nsays %s\nwant %s\n%s", client.command, got, client.says, s.refusals())
			}
		})
	}
}
