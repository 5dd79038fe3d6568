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
}

// Finding is what the rules of one label said.
type Finding struct {
	Label   string          `json:"label"`
	Rules   []Rule          `json:"rules,omitempty"`
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
	decision, _ := active.decide(ctx, r)
	explanation := Explanation{Decision: decision, Findings: active.findings(decision)}
	if decision.Allow {
		explanation.Passes = true
		return explanation
	}
	if changes, found := active.search(ctx, r, decision); found {
		explanation.Passes, explanation.Changes = true, active.shrink(ctx, r, changes)
	}
	return explanation
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

// shrink leaves out, one after the other, what isn't needed.
func (g *generation) shrink(ctx context.Context, request policy.Request, changes []policy.Change) []policy.Change {
	for i := len(changes) - 1; i >= 0; i-- {
		fewer := slices.Delete(slices.Clone(changes), i, i+1)
		if _, allowed := g.retry(ctx, request, fewer); allowed {
			changes = fewer
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
