package policy

import (
	"slices"
	"strings"
)

// NetworkSpec says where a sandbox may connect to. The first rule that matches wins, then DefaultAction. The zero value allows nothing.
type NetworkSpec struct {
	// DefaultAction is "deny" or "allow"; empty means deny.
	DefaultAction string       `json:"defaultAction,omitempty"`
	Egress        []EgressRule `json:"egress,omitempty"`
	// Datagrams: what may be connected to by TCP may be sent UDP datagrams too. False, the default, lets none out but questions to the sandbox's own resolver.
	Datagrams bool `json:"datagrams,omitzero"`
}

// EgressRule allows or denies one target.
type EgressRule struct {
	// Action is "allow" or "deny".
	Action string `json:"action"`
	// Target is a name, "*.name" (one or more labels, never the apex), an IP address or a prefix.
	Target string `json:"target"`
	// Ports are those of TCP, and with Datagrams of UDP, 1..65535; none means all.
	Ports []int `json:"ports,omitempty"`
}

// The actions of a rule.
const (
	NetworkDeny  = "deny"
	NetworkAllow = "allow"
)

// mostRules bounds a spec: comparing two takes milliseconds, and in the worst of cases time in proportion to the square.
const mostRules = 10_000

var networkActions = []string{NetworkDeny, NetworkAllow}

// DenyAll says whether the spec lets nothing out.
func (s NetworkSpec) DenyAll() bool {
	if s.DefaultAction == NetworkAllow {
		return false
	}
	for _, rule := range s.Egress {
		if rule.Action == NetworkAllow {
			return false
		}
	}
	return true
}

// Defaulted is the canonical form: the default action is written out, targets are canonical, ports sorted, each once. The order of the rules is
// theirs, since the first match wins. A target that isn't one stays as it is; [Request.Validate] and the parsers refuse it.
func (s NetworkSpec) Defaulted() NetworkSpec {
	canonical := NetworkSpec{DefaultAction: s.DefaultAction, Datagrams: s.Datagrams, Egress: make([]EgressRule, len(s.Egress))}
	if canonical.DefaultAction == "" {
		canonical.DefaultAction = NetworkDeny
	}
	for i, rule := range s.Egress {
		if parsed, fault := parseTarget("", rule.Target); fault == nil {
			rule.Target = parsed.String()
		}
		ports := slices.Clone(rule.Ports)
		slices.Sort(ports)
		rule.Ports = append([]int{}, slices.Compact(ports)...)
		canonical.Egress[i] = rule
	}
	return canonical
}

// Validate says what is wrong with a spec that isn't known to come from a parser: paths begin with "network". Targets must be canonical already.
func (s NetworkSpec) Validate() error { return orNil(s.check("network")) }

// check says what no NetworkSpec may be, whoever made it.
func (s NetworkSpec) check(field string) *FieldError {
	if s.DefaultAction != "" {
		if fault := checkEnum(member(field, "defaultAction"), s.DefaultAction, networkActions); fault != nil {
			return fault
		}
	}
	if len(s.Egress) > mostRules {
		return faultf(member(field, "egress"), "%d rules, at most %d", len(s.Egress), mostRules)
	}
	for i, rule := range s.Egress {
		if fault := rule.check(element(member(field, "egress"), i)); fault != nil {
			return fault
		}
	}
	return nil
}

func (r EgressRule) check(field string) *FieldError {
	if fault := checkEnum(member(field, "action"), r.Action, networkActions); fault != nil {
		return fault
	}
	parsed, fault := parseTarget(member(field, "target"), r.Target)
	if fault != nil {
		return fault
	}
	if canonical := parsed.String(); canonical != r.Target {
		return &FieldError{Field: member(field, "target"), Message: "not in its canonical form", Nearest: canonical}
	}
	if reason := parsed.neverReachable(); reason != "" && r.Action == NetworkAllow {
		return faultf(member(field, "target"), "%s is %s and never reachable; remove the rule", r.Target, reason)
	}
	for i, port := range r.Ports {
		if port < 1 || port > 65535 {
			return faultf(element(member(field, "ports"), i), "%d is out of range 1..65535", port)
		}
	}
	return nil
}

// wireNetwork is NetworkSpec as it comes: an empty word that somebody wrote is told from one that isn't there.
type wireNetwork struct {
	DefaultAction *string    `json:"defaultAction"`
	Egress        []wireRule `json:"egress"`
	Datagrams     bool       `json:"datagrams"`
}

type wireRule struct {
	Action *string `json:"action"`
	Target *string `json:"target"`
	Ports  []int   `json:"ports"`
}

func (w wireNetwork) spec(field string) (NetworkSpec, *FieldError) {
	spec := NetworkSpec{Datagrams: w.Datagrams}
	if w.DefaultAction != nil {
		if fault := checkEnum(member(field, "defaultAction"), *w.DefaultAction, networkActions); fault != nil {
			return NetworkSpec{}, fault
		}
		spec.DefaultAction = *w.DefaultAction
	}
	for i, rule := range w.Egress {
		where := element(member(field, "egress"), i)
		switch {
		case rule.Action == nil:
			return NetworkSpec{}, faultf(member(where, "action"), "missing, want one of %s", strings.Join(networkActions, ", "))
		case rule.Target == nil:
			return NetworkSpec{}, faultf(member(where, "target"), "missing, want a name, *.name, an address or a prefix")
		case rule.Ports != nil && len(rule.Ports) == 0:
			return NetworkSpec{}, faultf(member(where, "ports"), "empty; leave it out for all ports, or name them")
		}
		parsed, fault := parseTarget(member(where, "target"), *rule.Target)
		if fault != nil {
			return NetworkSpec{}, fault
		}
		spec.Egress = append(spec.Egress, EgressRule{Action: *rule.Action, Target: parsed.String(), Ports: rule.Ports})
	}
	return spec, spec.check(field)
}
