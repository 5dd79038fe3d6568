package execd

import (
	"errors"
	"fmt"
	"slices"

	"github.com/sandboxd/sandboxd/enforcer/network"
	"github.com/sandboxd/sandboxd/policy"
)

// inheritNetwork fills in the network of a request that names a sandbox and says nothing of it: the sandbox's own, judged again now.
func (w *walk) inheritNetwork() error {
	if !w.request.NetworkInherited {
		return nil
	}
	w.request.NetworkInherited, w.inherited = false, true
	box, err := w.service.sandboxes.find(w.request.Sandbox, w.request.Caller)
	if err != nil || box.outlet == nil {
		return nil // build says it, after policy has spoken
	}
	rules, _ := box.outlet.rules()
	w.request.Network = rules.Spec()
	return nil
}

// letOut puts the request's network in force: as the sandbox's own where the sandbox is for this exec alone, else on top of what the sandbox has.
func (w *walk) letOut() error {
	fault("walk.network")
	spec := w.decision.Effective.Network
	rules, err := w.service.rulesFor(w.box, spec)
	if err != nil || w.box.outlet == nil || w.ahead != nil { // nothing is let out before there is a job
		return err
	}
	if w.options.cellOf == nil { // else its interpreter is there already
		w.box.outlet.present.add(w.id)
	}
	if !w.box.kept {
		if spec.DenyAll() && w.options.after == nil { // what was let out before is over
			return nil
		}
		w.box.lent, w.box.used = w.request.Caller, true
		_, err := w.box.outlet.set(rules)
		return err
	}
	if own, _ := w.box.outlet.rules(); w.inherited && own.Digest() == rules.Digest() {
		return nil
	}
	return w.box.outlet.join(w.id, rules)
}

// checkNetwork reads the fence back where something is let out, be it for others of the sandbox: nothing is released into a network that isn't as
// planned. An exec that may not get out where others may is held by the rules that it has joined, which are looked at too.
func (w *walk) checkNetwork() error {
	if w.box.outlet == nil || w.ahead != nil {
		return nil
	}
	if own, _ := w.box.outlet.rules(); w.decision.Effective.Network.DenyAll() && own.Spec().DenyAll() {
		return nil
	}
	verdict, rules, err := w.box.verifyFence()
	if err != nil {
		w.verdict.Rows = append(w.verdict.Rows, unread(err))
		return &mismatchError{fmt.Errorf("read-back of the network: %w", err)}
	}
	verdict.Rows = append(verdict.Rows, w.rulesRow(rules))
	verdict.Rows = append(verdict.Rows, w.box.outlet.reachRows(rules, verdict.Rows)...)
	w.verdict.Rows = append(w.verdict.Rows, verdict.Rows...)
	if !verdict.Held() {
		return &mismatchError{errors.New("read-back of the network: " + failedRows(verdict))}
	}
	return nil
}

// verifyFence reads the fence back, and gives the rules that were the sandbox's own all the while: somebody else may change them meanwhile.
func (box *sandbox) verifyFence() (policy.Verdict, *network.Rules, error) {
	for range 16 {
		rules, generation := box.outlet.rules()
		verdict, err := box.VerifyFence()
		if _, now := box.outlet.rules(); err != nil || now == generation {
			return verdict, rules, err
		}
	}
	return policy.Verdict{}, nil, errors.New("the sandbox's network changed as often as it was read")
}

// rulesRow says whether what is in force lets out no more than was decided.
func (w *walk) rulesRow(own *network.Rules) policy.Row {
	spec := w.decision.Effective.Network
	row := policy.Row{Control: "network.rules", Want: policy.Digest(spec.Defaulted()), Got: own.Digest(), Evidence: policy.EvidenceReport}
	if w.box.kept && slices.Contains(w.box.outlet.tightenedBy(), w.id) {
		row.Got = row.Want
	}
	row.Held = row.Want == row.Got
	return row
}
