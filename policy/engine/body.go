package engine

import (
	"context"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"fmt"
	"strings"

	"github.com/sandboxd/sandboxd/policy"
)

// BodyExplanation is an explanation in the words of a body.
type BodyExplanation struct {
	Explanation
	// Request is the body with the changes made, which was read, judged again and allowed; null when no changes are known that pass.
	Request jsontext.Value `json:"request"`
	// Tightened is what is in force then and isn't as Request asks, its defaults filled in.
	Tightened []policy.Difference `json:"tightened"`
}

// ExplainBody explains the request in a body of POST /v1/decide. Changes are those of the body, and are made there once more: what a body can't say is no
// change that anybody could make. The error is that of a body that can't be read.
func (e *Engine) ExplainBody(ctx context.Context, body []byte, caller policy.Caller) (BodyExplanation, error) {
	request, err := policy.ParseDecide(body)
	if err != nil {
		return BodyExplanation{}, err
	}
	request.Caller = caller
	explained := BodyExplanation{Explanation: e.Explain(ctx, request), Request: jsontext.Value("null"), Tightened: []policy.Difference{}}
	if err := explained.inBody(request.Action, body); err != nil || !explained.Passes {
		return explained, err
	}
	changed, again, err := e.judgeEdited(ctx, body, explained.Changes, caller)
	if err != nil || !again.decision.Allow {
		explained.Passes, explained.Changes, explained.Passing = false, nil, policy.Decision{}
		return explained, nil
	}
	explained.Request, explained.Passing = changed, again.decision
	explained.Tightened, err = policy.Differences(again.request, again.decision.Effective)
	return explained, err
}

type judged struct {
	request  policy.Request
	decision policy.Decision
}

// judgeEdited makes the changes of the body, reads it and decides.
func (e *Engine) judgeEdited(ctx context.Context, body []byte, changes []policy.Change, caller policy.Caller) ([]byte, judged, error) {
	changed := body
	var err error
	if len(changes) > 0 {
		if changed, err = EditBody(body, changes); err != nil {
			return nil, judged{}, err
		}
	}
	request, err := policy.ParseDecide(changed)
	if err != nil {
		return nil, judged{}, err
	}
	request.Caller = caller
	return changed, judged{request, e.Decide(ctx, request)}, nil
}

// loose reads what only a part of is to be changed: inputs of a program may have what our own parsers refuse.
var loose = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true), jsontext.PreserveRawStrings(true))

// bodyField is where a field of a request is in the body that it was read from, POST /v1/decide's. The two differ for run alone, whose body has the
// program's fields at the top, and may have its time-out there too.
func bodyField(action policy.Action, body map[string]jsontext.Value, field string) string {
	if action != policy.ActionRun {
		return field
	}
	if _, atTop := body["timeoutSeconds"]; atTop && field == "limits.timeoutSeconds" {
		return "timeoutSeconds"
	}
	return strings.TrimPrefix(field, "program.")
}

// inBody puts what an explanation says of fields in the words of the body.
func (x *Explanation) inBody(action policy.Action, body []byte) error {
	var members map[string]jsontext.Value
	if err := json.Unmarshal(body, &members, loose); err != nil {
		return err
	}
	for i := range x.Changes {
		x.Changes[i].Field = bodyField(action, members, x.Changes[i].Field)
	}
	for _, finding := range x.Findings {
		for i := range finding.Reasons {
			reason := &finding.Reasons[i]
			reason.Field = bodyField(action, members, reason.Field)
			if reason.Change != nil {
				// A copy: the decision has the same one.
				change := *reason.Change
				change.Field = bodyField(action, members, change.Field)
				reason.Change = &change
			}
		}
	}
	return nil
}

// EditBody makes changes of a body. Members that no change is about stay the bytes that they were.
func EditBody(body []byte, changes []policy.Change) ([]byte, error) {
	var members map[string]jsontext.Value
	if err := json.Unmarshal(body, &members, loose); err != nil {
		return nil, err
	}
	for _, change := range changes {
		if err := editMember(members, change); err != nil {
			return nil, fmt.Errorf("field %q: %w", change.Field, err)
		}
	}
	return json.Marshal(members, loose, json.Deterministic(true))
}

func editMember(members map[string]jsontext.Value, change policy.Change) error {
	steps, err := parsePath(change.Field)
	if err != nil {
		return err
	}
	name := steps[0].name
	if len(steps) == 1 && change.Op == opRemove {
		delete(members, name)
		return nil
	}
	if steps[0].indexed {
		return errors.New("a body is an object, not a list")
	}
	var node any
	if value, there := members[name]; there {
		if err := json.Unmarshal(value, &node); err != nil {
			return err
		}
	} else if change.Op == opRemove {
		return nil
	}
	if node, err = edit(node, steps[1:], change); err != nil {
		return err
	}
	members[name], err = json.Marshal(node, json.Deterministic(true))
	return err
}
