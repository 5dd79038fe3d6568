package engine

import (
	"context"
	"slices"

	"github.com/sandboxd/sandboxd/policy"
)

// Explanation is a decision with everything that was looked at, and the way to a yes.
type Explanation struct {
	Decision policy.Decision `json:"decision"`
	// Findings has every label of the bundle, in order, with what its rules said. One without reasons was content.
	Findings []Finding `json:"findings"`
	// Passes says that Changes make a request that was decided again and allowed.
	Passes bool `json:"passes"`
	// Changes is the smallest set of the reasons' own changes that passes: none can be left out. Empty unless Passes.
	Changes []policy.Change `json:"changes,omitempty"`
	// Passing is the decision on the request with the changes, which is Decision itself where there are none. It denies unless Passes.
	Passing policy.Decision `json:"passing"`
}

// Finding is what the rules of one label said.
type Finding struct {
	Label string `json:"label"`
	Rules []Rule `json:"rules,omitempty"`
	// Spoke are those of Rules that have the reasons.
	Spoke   []Rule          `json:"spoke,omitempty"`
	Reasons []policy.Reason `json:"reasons,omitempty"`
}

const (
	// mostRounds: a change may uncover another reason, but not without end.
	mostRounds = 8
	// mostChanges is how many changes may be tried together; more aren't a small change any more.
	mostChanges = 32
)

// Explain decides and says why. It has no effect: nothing is recorded, and the request isn't changed.
func (e *Engine) Explain(ctx context.Context, r policy.Request) Explanation {
	// One generation throughout, whatever is reloaded meanwhile.
	active := e.active.Load()
	if active == nil {
		decision := unbound()
		return Explanation{Decision: decision, Findings: []Finding{}, Passing: decision}
	}
	decision, _ := active.decide(ctx, r)
	explanation := Explanation{Decision: decision, Findings: active.findings(decision)}
	if decision.Allow {
		explanation.Passes, explanation.Passing = true, decision
		return explanation
	}
	nameSpeakers(explanation.Findings, active.spoke(ctx, r))
	if changes, found := active.search(ctx, r, decision); found {
		changes = active.shrink(ctx, r, changes)
		if passing, allowed := active.retry(ctx, r, changes); allowed {
			explanation.Passes, explanation.Changes, explanation.Passing = true, changes, passing
		}
	}
	return explanation
}

// nameSpeakers tells of each label that spoke which of its rules it was.
func nameSpeakers(findings []Finding, spoke []Rule) {
	for i := range findings {
		if len(findings[i].Reasons) == 0 {
			continue
		}
		for _, rule := range spoke {
			if rule.Label == findings[i].Label {
				findings[i].Spoke = append(findings[i].Spoke, rule)
			}
		}
	}
}

// findings groups rules and reasons by label; reasons of labels that no rule has, such as the engine's own, come last.
func (g *generation) findings(decision policy.Decision) []Finding {
	var found []Finding
	at := func(label string) *Finding {
		i := slices.IndexFunc(found, func(f Finding) bool { return f.Label == label })
		if i < 0 {
			found = append(found, Finding{Label: label})
			i = len(found) - 1
		}
		return &found[i]
	}
	for _, rule := range g.rules {
		finding := at(rule.Label)
		finding.Rules = append(finding.Rules, rule)
	}
	for _, reason := range decision.Reasons {
		finding := at(reason.Rule)
		finding.Reasons = append(finding.Reasons, reason)
	}
	return found
}

// search makes all suggested changes, decides again, and goes on with what is suggested then.
func (g *generation) search(ctx context.Context, request policy.Request, decision policy.Decision) ([]policy.Change, bool) {
	var changes []policy.Change
	for range mostRounds {
		before := len(changes)
		for _, reason := range decision.Reasons {
			if reason.Change != nil {
				changes = append(changes, *reason.Change)
			}
		}
		if len(changes) == before || len(changes) > mostChanges {
			return nil, false
		}
		var allowed bool
		if decision, allowed = g.retry(ctx, request, changes); allowed {
			return changes, true
		}
	}
	return nil, false
}

// shrink leaves out, one after the other, what isn't needed, until nothing more can be left out: a policy may be content without one change only
// once another is gone.
func (g *generation) shrink(ctx context.Context, request policy.Request, changes []policy.Change) []policy.Change {
	for before := len(changes) + 1; len(changes) < before; {
		before = len(changes)
		for i := len(changes) - 1; i >= 0; i-- {
			fewer := slices.Delete(slices.Clone(changes), i, i+1)
			if _, allowed := g.retry(ctx, request, fewer); allowed {
				changes = fewer
			}
		}
	}
	return changes
}

func (g *generation) retry(ctx context.Context, request policy.Request, changes []policy.Change) (policy.Decision, bool) {
	changed, err := apply(request, changes)
	if err != nil {
		return policy.Decision{}, false
	}
	decision, _ := g.decide(ctx, changed)
	return decision, decision.Allow
}
