package network

import (
	"math"

	"github.com/sandboxd/sandboxd/policy"
)

// Match is a judgement. The zero value denies.
type Match struct {
	Allow bool
	// Rule is the index in the spec's Egress of the rule that decided; [Default] and [Closed] are none.
	Rule int
	// In is the index, among the rules of a [Set], of those that decided.
	In int
	// Reason is one of few texts, fit for a record and for a label.
	Reason string

	name string // what [Rules.Name] was asked for
}

// What Rule is when no rule decided.
const (
	Default = -1 // the default action
	Closed  = -2 // a class, or a name, that no rule opens or that none here did
)

const (
	allowedByRule    = "allowed by a rule"
	allowedByDefault = "allowed by default"
	deniedByRule     = "denied by a rule"
	deniedByDefault  = "no rule allows it"
	metadataName     = "a metadata name, never reachable"
	localName        = "the sandbox itself, never reachable from outside"
	notAName         = "not a name in canonical form"
	noAddress        = "no address"
	noRules          = "no rules, nothing is allowed"
	unjudged         = "a name that wasn't allowed"
	unknownEmbedded  = "a translated address whose IPv4 address can't be known, never reachable"
)

// closedReasons are why an address of a class is closed.
var closedReasons = map[policy.Class]string{
	policy.ClassUnspecified:   "an unspecified address, never reachable",
	policy.ClassLoopback:      "a loopback address, never reachable",
	policy.ClassMulticast:     "a multicast address, never reachable",
	policy.ClassBroadcast:     "a broadcast address, never reachable",
	policy.ClassMetadata:      "a metadata address, never reachable",
	policy.ClassPrivate:       "a private address that no rule names",
	policy.ClassShared:        "a shared address that no rule names",
	policy.ClassLinkLocal:     "a link-local address that no rule names",
	policy.ClassUniqueLocal:   "a unique-local address that no rule names",
	policy.ClassReserved:      "a reserved address that no rule names",
	policy.ClassDocumentation: "a documentation address that no rule names",
	policy.ClassBenchmarking:  "a benchmarking address that no rule names",
	policy.ClassTranslated:    "a translated address that no rule names",
}

// mark is a rule in a table: twice its index, and one more when it allows. The least of those that match is the first rule that matches.
type mark int32

const (
	none       mark = math.MaxInt32
	neverMeta  mark = -2 // before every rule
	neverLocal mark = -1
)

// closedNames are why a name is closed, by its mark turned positive.
var closedNames = [3]string{-neverMeta: metadataName, -neverLocal: localName}

func markOf(index int, rule policy.EgressRule) mark {
	if rule.Action == policy.NetworkAllow {
		return mark(2*index + 1)
	}
	return mark(2 * index)
}

// outcomes are the reasons of marks by their lowest bit, and of the default actions behind them.
var outcomes = [4]string{deniedByRule, allowedByRule, deniedByDefault, allowedByDefault}

func (m mark) match(defaultAllow bool) (match Match) {
	match.decide(m, defaultAllow)
	return match
}

// decide fills in a match where it lies: copies of it would be a fair part of a judgement.
func (match *Match) decide(m mark, defaultAllow bool) {
	rule, outcome := int(m>>1), m&1
	if m == none {
		rule, outcome = Default, 2
		if defaultAllow {
			outcome = 3
		}
	}
	match.Allow, match.Rule, match.Reason = outcome&1 == 1, rule, outcomes[outcome&3]
	if m < 0 {
		match.Allow, match.Rule, match.Reason = false, Closed, closedNames[-m]
	}
}
