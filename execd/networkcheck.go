package execd

import (
	"errors"
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/enforcer"
	"github.com/sandboxd/sandboxd/enforcer/network"
	"github.com/sandboxd/sandboxd/policy"
)

// rulesFor compiles what is in force for a sandbox, or refuses what its host can't hold.
func (s *Service) rulesFor(box *sandbox, spec policy.NetworkSpec) (*network.Rules, error) {
	rules, err := network.Compile(spec)
	if err != nil {
		var fault *policy.FieldError
		if errors.As(err, &fault) {
			return nil, &enforcer.RefusedError{Field: fault.Field, Message: fault.Message, HowTo: "change the rule, or leave it out"}
		}
		return nil, err
	}
	if box.outlet == nil && !spec.DenyAll() {
		return nil, enforcer.NoFence(s.host)
	}
	if spec.Datagrams && !spec.DenyAll() && !box.outlet.fence.Plan().Datagrams() {
		return nil, enforcer.NoDatagrams()
	}
	return rules, nil
}

// verifyNetwork reads a sandbox back, its fence above all, and says by which rules is judged. want is the rules that are to be in force, nil for
// whichever are.
func verifyNetwork(box *sandbox, want *network.Rules) (policy.Verdict, error) {
	verdict, err := box.Verify()
	if err != nil || box.outlet == nil {
		return verdict, err
	}
	rules, _ := box.outlet.rules()
	if want == nil {
		want = rules
	}
	verdict.Rows = append(verdict.Rows, policy.Row{
		Control: "network.rules", Want: want.Digest(), Got: rules.Digest(), Held: want.Digest() == rules.Digest(), Evidence: policy.EvidenceReport,
	})
	verdict.Rows = append(verdict.Rows, box.outlet.reachRows(want, verdict.Rows)...)
	return verdict, nil
}

// reachRows hold what the kernel lets through to the relay, as these rows of a read-back have it, against the rules that it should follow from. There is none
// where everything comes to the relay.
func (out *outlet) reachRows(rules *network.Rules, read []policy.Row) []policy.Row {
	want := out.fence.Plan().ReachText(reach(rules))
	if want == "" {
		return nil
	}
	row := policy.Row{Control: "network.reach", Want: want, Got: "not read", Evidence: policy.EvidenceKernel}
	for _, of := range read {
		if of.Control == "fence.reach" {
			row.Got = of.Got
		}
	}
	row.Held = row.Want == row.Got
	return []policy.Row{row}
}

// fenceRow says whether a row of a sandbox's verdict is about its fence.
func fenceRow(row policy.Row) bool { return strings.HasPrefix(row.Control, "fence.") }

// repairFence makes a fence anew that isn't as planned, where that is all that is wrong, and gives what is found then. Nothing goes out meanwhile: a
// namespace without our rules has no other way.
func (s *Service) repairFence(box *sandbox, verdict policy.Verdict) policy.Verdict {
	failed := verdict.Failed()
	if box.outlet == nil || len(failed) == 0 || slices.ContainsFunc(failed, func(row policy.Row) bool { return !fenceRow(row) }) {
		return verdict
	}
	// A timer and those who watch notice the same change at the same time: the first repairs, and the others find it done.
	box.outlet.repairing.Lock()
	defer box.outlet.repairing.Unlock()
	again, err := box.Verify()
	if err != nil {
		return verdict
	}
	if again.Held() || box.outlet.repaired {
		return again
	}
	box.outlet.repaired = true
	failed = again.Failed()
	if err := box.outlet.fence.Repair(); err != nil {
		s.logger.Error("network: repair", "sandbox", box.id, "error", err)
		return verdict
	}
	if again, err = box.Verify(); err != nil {
		return verdict
	}
	if again.Held() {
		s.recordDrift(box, nil, &drift{failed, "fence"}, "repaired")
	}
	return again
}
