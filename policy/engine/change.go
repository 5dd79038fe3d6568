package engine

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"fmt"

	"github.com/sandboxd/sandboxd/policy"
)

// The operations of a policy.Change.
const (
	opSet    = "set"
	opRemove = "remove"
)

// apply makes the edits to a copy of the request. Caller, action and what Rego doesn't see are not to be edited: a policy may suggest less, not
// somebody else.
func apply(request policy.Request, changes []policy.Change) (policy.Request, error) {
	edited := request
	// Bytes that JSON can't hold, and that no change may touch, stay beside.
	edited.Command.Stdin, edited.Program.Code, edited.Program.Inputs = nil, "", jsontext.Value("null")
	data, err := json.Marshal(edited)
	if err != nil {
		return policy.Request{}, err
	}
	var tree any
	if err := json.Unmarshal(data, &tree); err != nil {
		return policy.Request{}, err
	}
	for _, change := range changes {
		steps, err := parsePath(change.Field)
		if err != nil {
			return policy.Request{}, err
		}
		if !editable(steps[0].name) {
			return policy.Request{}, fmt.Errorf("field %q can't be changed", change.Field)
		}
		if tree, err = edit(tree, steps, change); err != nil {
			return policy.Request{}, fmt.Errorf("field %q: %w", change.Field, err)
		}
	}
	if data, err = json.Marshal(tree); err != nil {
		return policy.Request{}, err
	}
	var result policy.Request
	if err := json.Unmarshal(data, &result, json.RejectUnknownMembers(true)); err != nil {
		return policy.Request{}, err
	}
	result.Command.Stdin, result.Program.Code, result.Program.Inputs = request.Command.Stdin, request.Program.Code, request.Program.Inputs
	result.Program.Bulk = request.Program.Bulk
	return result, nil
}

func editable(name string) bool {
	switch name {
	case "securityContext", "network", "command", "program", "file", "limits", "image":
		return true
	}
	return false
}

// edit returns node with the change made beneath it. Objects on the way that aren't there are made for "set" and are no error for "remove".
func edit(node any, steps []step, change policy.Change) (any, error) {
	if len(steps) == 0 {
		var value any
		err := json.Unmarshal(change.Value, &value)
		return value, err
	}
	here, rest := steps[0], steps[1:]
	last := len(rest) == 0
	if here.indexed {
		list, isList := node.([]any)
		if !isList || here.index >= len(list) || (last && change.Op == opRemove) {
			return nil, fmt.Errorf("no element %d to change", here.index)
		}
		value, err := edit(list[here.index], rest, change)
		list[here.index] = value
		return list, err
	}
	object, isObject := node.(map[string]any)
	if !isObject {
		if node != nil {
			return nil, fmt.Errorf("%q is not in an object", here.name)
		}
		if change.Op == opRemove {
			return nil, nil
		}
		object = map[string]any{}
	}
	if change.Op == opRemove {
		child, there := object[here.name]
		switch {
		case last:
			delete(object, here.name)
			return object, nil
		case !there:
			return object, nil
		default:
			value, err := edit(child, rest, change)
			object[here.name] = value
			return object, err
		}
	}
	value, err := edit(object[here.name], rest, change)
	object[here.name] = value
	return object, err
}
