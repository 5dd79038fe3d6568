package execd

import (
	"slices"
	"strings"
	"testing"
)

// TestNetworkMetricsAreBounded: nothing that a program chooses is a label, however many names it asks for and addresses it connects to.
func TestNetworkMetricsAreBounded(t *testing.T) {
	ask := resolves(t)
	d := serve(t, networked(t, "*.a.example", documentation))
	box := d.makeSandbox(t).ID
	d.network(t, "PUT", box, body(t, letting("*.a.example")))
	lines := func() []string {
		var kept []string
		for line := range strings.Lines(string(d.do(t, "GET", "/metrics", "").body)) {
			if name, _, _ := strings.Cut(line, " "); strings.HasPrefix(line, "sandboxd_network_") || strings.HasPrefix(line, "sandboxd_names_") {
				kept = append(kept, name)
			}
		}
		slices.Sort(kept)
		return kept
	}
	if got := said(t, d.in(t, box, ask("1.a.example")+"; "+ask("1.b.example"), "")); got != "yes\nno" {
		t.Fatal(got)
	}
	before := lines()
	if got := said(t, d.in(t, box, "for i in 2 3 4 5 6 7 8 9; do getent ahostsv4 $i.a.example; getent ahostsv4 $i.b.example; done >/dev/null; echo done", "")); got != "done" {
		t.Fatal(got)
	}
	if after := lines(); !slices.Equal(before, after) || len(after) < 10 {
		t.Errorf("%d series were there, now\n%s", len(before), strings.Join(after, "\n"))
	}
	d.waitFor(t, "sandboxd_network_connections 0")
}
