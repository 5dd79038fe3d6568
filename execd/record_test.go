package execd

import (
	"testing"

	"github.com/sandboxd/sandboxd/policy"
)

// The digest that record and reply share is that of the verdict as it is, whatever it was before.
func TestVerdictDigestFollowsTheVerdict(t *testing.T) {
	row := func(control string) policy.Row { return policy.Row{Control: control, Held: true} }
	w := &walk{}
	for i, change := range []func(){
		func() {},
		func() { w.verdict = policy.Verdict{Rows: make([]policy.Row, 0, 4)} },
		func() { w.verdict.Rows = append(w.verdict.Rows, row("a")) },
		func() { w.verdict.Rows = append(w.verdict.Rows, row("b")) },
		func() { w.verdict = policy.Verdict{Tier: policy.TierFull, Rows: []policy.Row{row("a"), row("b")}} },
		func() { w.verdict.Rows = []policy.Row{row("a"), row("c")} },
	} {
		change()
		for range 2 {
			if got, want := w.verdictDigest(), w.verdict.Digest(); got != want {
				t.Errorf("change %d: %s, want %s", i, got, want)
			}
		}
	}
}
