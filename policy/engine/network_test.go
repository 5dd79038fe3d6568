package engine

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/policy"
)

// listing is the default bundle with some targets listed on port 443.
func listing(t *testing.T, targets ...string) *Engine {
	t.Helper()
	type entry struct {
		Target string `json:"target"`
		Ports  []int  `json:"ports"`
	}
	var list []entry
	for _, target := range targets {
		list = append(list, entry{target, []int{443}})
	}
	data, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	files := replaced(t, "data.json", `"targets": []`, `"targets": `+string(data))
	return open(t, Options{FS: files, Tested: true})
}

// What policy lists may be asked for, and so may what opens less: Rego's word must never be wider than [policy.WithinNetwork]'s.
func TestListedTargets(t *testing.T) {
	targets := []string{
		"example.com", "*.example.com", "a.example.com", "*.a.example.com", "b.a.example.com", "example.org", "10.0.0.0/8", "10.1.0.0/16", "10.1.2.3", "10.0.0.0/7",
		"0.0.0.0/0", "8.0.0.0/7", "9.9.9.9", "::/0", "2600::/16", "2600::1", "fd00::/8", "fd00:1::1", "64:ff9b::/96", "2001::/16", "2001::/23", "169.254.0.0/16", "240.0.0.0/5",
	}
	for _, entry := range targets {
		engine := listing(t, entry)
		for _, target := range targets {
			asked := policy.NetworkSpec{Egress: []policy.EgressRule{{Action: policy.NetworkAllow, Target: target, Ports: []int{443}}}}.Defaulted()
			all := policy.NetworkSpec{Egress: []policy.EgressRule{{Action: policy.NetworkAllow, Target: entry, Ports: []int{443}}}}.Defaulted()
			request := typical()
			request.Network = asked
			allowed, within := engine.Decide(t.Context(), request).Allow, policy.WithinNetwork(asked, all) == nil
			if allowed != within {
				t.Errorf("%s listed, %s asked: allowed %v, within %v", entry, target, allowed, within)
			}
		}
	}
}

// The list of ranges in Rego is a copy.
func TestRangesAreTheOnesOfPolicy(t *testing.T) {
	_, text, _ := strings.Cut(string(defaultFiles(t)["network/egress.rego"].Data), "ranges := ")
	var inRego []string
	if err := json.Unmarshal([]byte(strings.ReplaceAll(strings.TrimSpace(text), ",\n]", "\n]")), &inRego); err != nil {
		t.Fatal(err)
	}
	known := policy.Ranges()
	if len(inRego) != len(known) {
		t.Errorf("%d ranges, want %d", len(inRego), len(known))
	}
	for i, r := range known {
		if i < len(inRego) && netip.MustParsePrefix(inRego[i]) != r.Prefix {
			t.Errorf("range %d is %s, want %s", i, inRego[i], r.Prefix)
		}
	}
}
