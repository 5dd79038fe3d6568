package opensandbox

import (
	"context"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/enforcer/network"
	"github.com/sandboxd/sandboxd/policy"
)

// networkPolicy is a policy as clients write it. Targets stay as they were written: clients compare them, string for string.
type networkPolicy struct {
	DefaultAction string        `json:"defaultAction"`
	Egress        []networkRule `json:"egress"`
	// datagrams go out too. Clients have no word for it: a sandbox that is made without a policy has them where sandboxd's policy lets it, and keeps them
	// until one is put in its place.
	datagrams bool
}

type networkRule struct {
	Action string `json:"action"`
	Target string `json:"target"`
}

// openPolicy is that of a sandbox that is made without one.
var openPolicy = networkPolicy{DefaultAction: policy.NetworkAllow, Egress: []networkRule{}, datagrams: true}

// parsePolicy reads the policy of a create; none at all is the open one.
func parsePolicy(value jsontext.Value) (networkPolicy, error) {
	if len(value) == 0 || value.Kind() == 'n' {
		return openPolicy, nil
	}
	return parseWhole(codeRequest, value)
}

// parseWhole reads a whole policy: what isn't said is denied.
func parseWhole(code string, data []byte) (networkPolicy, error) {
	p := networkPolicy{}
	if len(data) > 0 {
		if err := decode(code, data, &p); err != nil {
			return p, err
		}
	}
	if p.DefaultAction == "" {
		p.DefaultAction = policy.NetworkDeny
	}
	if p.Egress == nil {
		p.Egress = []networkRule{}
	}
	return p, nil
}

// spec is the policy in policy's words, or an error that names what can't be enforced.
func (p networkPolicy) spec() (policy.NetworkSpec, error) {
	data, err := json.Marshal(p)
	if err != nil {
		return policy.NetworkSpec{}, err
	}
	spec, err := policy.ParseNetwork(data)
	if err == nil {
		err = network.Check(spec)
	}
	if err != nil {
		return policy.NetworkSpec{}, badNetwork(err)
	}
	spec.Datagrams = p.datagrams
	return spec, nil
}

// badNetwork names the field as it is called here.
func badNetwork(err error) error {
	var field *policy.FieldError
	if !errors.As(err, &field) {
		return bad("networkPolicy", "%v", err)
	}
	return bad("networkPolicy."+field.Field, "%s", field.Message)
}

// merged is the policy with rules added, before those that it has: the first match counts, and a new rule that an old one hides would change nothing. Of two
// for one target the first is taken, and an old one gives way.
func (p networkPolicy) merged(rules []networkRule) networkPolicy {
	next := networkPolicy{p.DefaultAction, []networkRule{}, p.datagrams}
	for _, rule := range slices.Concat(rules, p.Egress) {
		if !slices.ContainsFunc(next.Egress, func(other networkRule) bool { return other.Target == rule.Target }) {
			next.Egress = append(next.Egress, rule)
		}
	}
	return next
}

// without is the policy without some targets.
func (p networkPolicy) without(targets []string) networkPolicy {
	return networkPolicy{p.DefaultAction, slices.DeleteFunc(slices.Clone(p.Egress), func(rule networkRule) bool { return slices.Contains(targets, rule.Target) }), p.datagrams}
}

// policyStatus is what is enforced now.
type policyStatus struct {
	Status          string        `json:"status"`
	Mode            string        `json:"mode"`
	EnforcementMode string        `json:"enforcementMode"`
	Reason          string        `json:"reason,omitempty"`
	Policy          networkPolicy `json:"policy"`
}

// enforcementMode is said only while fence and relay are proven in force.
const enforcementMode = "dns+nft"

// egressRoutes is the egress API.
func (f *Facade) egressRoutes() []route {
	return []route{
		{"GET", "/policy", f.getPolicy},
		{"PUT", "/policy", f.putPolicy},
		{"POST", "/policy", f.putPolicy},
		{"PATCH", "/policy", f.patchPolicy},
		{"DELETE", "/policy", f.deletePolicy},
		{"GET", "/healthz", f.egressHealth},
	}
}

func (f *Facade) egressHealth(x *exchange) error {
	if _, err := f.proven(x.box); err != nil {
		return faultf(http.StatusServiceUnavailable, "NOT_ENFORCED", "%v", err)
	}
	x.empty()
	return nil
}

// proven reads the sandbox's network back, and gives the policy that is in force. It is an error when that isn't what was asked for last.
func (f *Facade) proven(box *sandbox) (networkPolicy, error) {
	reply, err := f.service.Network(box.inner, box.caller)
	if err != nil {
		return networkPolicy{}, err
	}
	box.mu.Lock()
	asked := box.network
	box.mu.Unlock()
	spec, err := asked.spec()
	if err != nil {
		return networkPolicy{}, err
	}
	switch {
	case !reply.Verdict.Held:
		return asked, faultf(http.StatusInternalServerError, "NOT_ENFORCED", "the sandbox isn't as planned, so nothing should be taken for enforced: %s", rowsText(reply.Verdict.Rows))
	case reply.Mode != "relay":
		return asked, faultf(http.StatusInternalServerError, "NOT_ENFORCED", "this host has no fence: there is no network at all, and nothing that filters one")
	case policy.Digest(reply.Network.Defaulted()) != policy.Digest(spec.Defaulted()):
		return asked, faultf(http.StatusInternalServerError, "NOT_ENFORCED", "what is in force isn't what was asked for: policy has changed it")
	}
	return asked, nil
}

// rowsText names the rows that don't hold.
func rowsText(rows []policy.Row) string {
	var texts []string
	for _, row := range rows {
		if !row.Held {
			texts = append(texts, fmt.Sprintf("%s: want %s, got %s", row.Control, row.Want, row.Got))
		}
	}
	return strings.Join(texts, "; ")
}

// answerPolicy answers with what is in force now.
func (f *Facade) answerPolicy(x *exchange) error {
	in, err := f.proven(x.box)
	if err != nil {
		return err
	}
	mode := "enforcing"
	if len(in.Egress) == 0 {
		mode = in.DefaultAction + "_all"
	}
	x.answer(http.StatusOK, policyStatus{Status: "ok", Mode: mode, EnforcementMode: enforcementMode, Policy: in})
	return nil
}

func (f *Facade) getPolicy(x *exchange) error { return f.answerPolicy(x) }

func (f *Facade) putPolicy(x *exchange) error {
	data, err := x.body(codeRequest)
	if err != nil {
		return err
	}
	next, err := parseWhole(codeRequest, data)
	if err != nil {
		return err
	}
	return f.change(x, func(networkPolicy) networkPolicy { return next })
}

func (f *Facade) patchPolicy(x *exchange) error {
	var rules []networkRule
	if err := x.decode(codeRequest, &rules); err != nil {
		return err
	}
	return f.change(x, func(now networkPolicy) networkPolicy { return now.merged(rules) })
}

func (f *Facade) deletePolicy(x *exchange) error {
	var targets []string
	if err := x.decode(codeRequest, &targets); err != nil {
		return err
	}
	return f.change(x, func(now networkPolicy) networkPolicy { return now.without(targets) })
}

// change walks a change of the sandbox's network. One at a time: what is answered is what was proven.
func (f *Facade) change(x *exchange, to func(networkPolicy) networkPolicy) error {
	x.box.changing.Lock()
	defer x.box.changing.Unlock()
	x.box.mu.Lock()
	next := to(x.box.network)
	x.box.mu.Unlock()
	spec, err := next.spec()
	if err != nil {
		return err
	}
	_, err = f.service.PutNetwork(x.r.Context(), policy.Request{Action: policy.ActionNetwork, Caller: x.caller, Sandbox: x.box.inner, Network: spec})
	if err != nil {
		x.box.events.now("network refused: %s", asFault(err).Message)
		return err
	}
	f.eachLayer(x.box, func(inner string) error {
		_, err := f.service.PutNetwork(context.WithoutCancel(x.r.Context()), policy.Request{Action: policy.ActionNetwork, Caller: x.caller, Sandbox: inner, Network: spec})
		return err
	})
	x.box.events.now("network changed: default %s%s", next.DefaultAction, next.rules())
	x.box.mu.Lock()
	x.box.network = next
	x.box.mu.Unlock()
	return f.answerPolicy(x)
}
