package policy

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDifferences(t *testing.T) {
	asked, _, err := ParseExec([]byte(`{"command": {"argv": ["true"]}, "limits": {"pids": 100}, "securityContext": {"runAsUser": 1000}}`))
	if err != nil {
		t.Fatal(err)
	}
	in := Effective{SecurityContext: asked.SecurityContext.Defaulted(), Network: asked.Network.Defaulted(), Limits: asked.Limits.Defaulted()}
	got, err := Differences(asked, in)
	if err != nil || len(got) != 0 {
		t.Errorf("as asked, and yet: %v, %v", got, err)
	}
	in.OnOutputLimit, in.ExplainDenials = "kill", true
	in.Limits.Pids, in.Limits.MemoryBytes = 50, 1<<20
	in.SecurityContext.SeccompProfile = &SeccompProfile{Type: SeccompLocalhost, LocalhostProfile: new("sandboxd/strict")}
	in.Network.Egress = []EgressRule{{Action: "deny", Target: "10.0.0.0/8"}}
	if got, err = Differences(asked, in); err != nil {
		t.Fatal(err)
	}
	want := []Difference{
		{"limits.memoryBytes", nil, []byte("1048576")},
		{"limits.pids", []byte("100"), []byte("50")},
		{"network.egress", nil, []byte(`[{"action":"deny","target":"10.0.0.0/8"}]`)},
		{"securityContext.seccompProfile.localhostProfile", nil, []byte(`"sandboxd/strict"`)},
		{"securityContext.seccompProfile.type", []byte(`"RuntimeDefault"`), []byte(`"Localhost"`)},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
