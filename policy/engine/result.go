package engine

import (
	"cmp"
	"encoding/json"
	"encoding/json/jsontext"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"github.com/sandboxd/sandboxd/policy"
)

// onLimit is what may happen when output passes its limit.
var onLimit = []string{"truncate", "kill"}

// lackName is a name that Decision.Accept may have.
var lackName = regexp.MustCompile(`^[a-z][A-Za-z0-9_]*(\.[A-Za-z0-9_]+)*$`)

// answer is Rego's decision, read strictly.
type answer struct {
	allow     bool
	reasons   []policy.Reason
	effective policy.Effective
	// context, network and limits say which parts of effective were named.
	context, network, limits bool
	accept                   []string
	labels                   map[string]string
}

// readAnswer takes exactly the shape of DESIGN §9: a wrong type or an unknown key is a mistake of the policy's author, and denies.
func readAnswer(value any) (answer, error) {
	object, err := members(value, "decision", "allow", "reasons", "effective", "accept", "labels")
	if err != nil {
		return answer{}, err
	}
	var a answer
	var isBool bool
	if a.allow, isBool = object["allow"].(bool); !isBool {
		return answer{}, errors.New("decision.allow: want true or false")
	}
	if a.reasons, err = readReasons(object["reasons"]); err != nil {
		return answer{}, err
	}
	if a.accept, err = readAccept(object["accept"]); err != nil {
		return answer{}, err
	}
	if a.labels, err = readLabels(object["labels"]); err != nil {
		return answer{}, err
	}
	if err := a.readEffective(object["effective"]); err != nil {
		return answer{}, err
	}
	switch {
	case a.allow && len(a.reasons) > 0:
		return answer{}, errors.New("decision.allow: true, and yet there are reasons against it")
	case !a.allow && len(a.reasons) == 0:
		return answer{}, errors.New("decision.reasons: none, and yet allow is false")
	}
	return a, nil
}

// members wants an object with no other names than these; "allow" and "reasons" of a decision are looked at by their readers.
func members(value any, path string, names ...string) (map[string]any, error) {
	object, isObject := value.(map[string]any)
	if !isObject {
		return nil, fmt.Errorf("%s: want an object, got %s", path, kindOf(value))
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("%s.%s: unknown field", path, name)
		}
	}
	return object, nil
}

func readReasons(value any) ([]policy.Reason, error) {
	entries, isList := value.([]any)
	if !isList {
		return nil, fmt.Errorf("decision.reasons: want a list or a set, got %s", kindOf(value))
	}
	reasons := make([]policy.Reason, 0, len(entries))
	for i, entry := range entries {
		reason, err := readReason(entry, fmt.Sprintf("decision.reasons[%d]", i))
		if err != nil {
			return nil, err
		}
		reasons = append(reasons, reason)
	}
	slices.SortFunc(reasons, func(a, b policy.Reason) int {
		return cmp.Or(cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Field, b.Field), cmp.Compare(a.Message, b.Message))
	})
	return reasons, nil
}

func readReason(value any, path string) (policy.Reason, error) {
	object, err := members(value, path, "rule", "message", "field", "change")
	if err != nil {
		return policy.Reason{}, err
	}
	var reason policy.Reason
	for _, part := range []struct {
		name     string
		into     *string
		required bool
	}{{"rule", &reason.Rule, true}, {"message", &reason.Message, true}, {"field", &reason.Field, false}} {
		text, isText := object[part.name].(string)
		if _, there := object[part.name]; (there && !isText) || (part.required && text == "") {
			return policy.Reason{}, fmt.Errorf("%s.%s: want a text that isn't empty", path, part.name)
		}
		*part.into = text
	}
	if change, there := object["change"]; there {
		if reason.Change, err = readChange(change, path+".change"); err != nil {
			return policy.Reason{}, err
		}
	}
	return reason, nil
}

func readChange(value any, path string) (*policy.Change, error) {
	object, err := members(value, path, "op", "field", "value")
	if err != nil {
		return nil, err
	}
	op, _ := object["op"].(string)
	field, _ := object["field"].(string)
	to, hasValue := object["value"]
	if field == "" || (op != opSet || !hasValue) && (op != opRemove || hasValue) {
		return nil, fmt.Errorf(`%s: want {"op": "set", "field", "value"} or {"op": "remove", "field"}`, path)
	}
	change := &policy.Change{Op: op, Field: field}
	if hasValue {
		if change.Value, err = marshal(to); err != nil {
			return nil, fmt.Errorf("%s.value: %w", path, err)
		}
	}
	return change, nil
}

func readAccept(value any) ([]string, error) {
	if value == nil {
		return nil, nil
	}
	entries, isList := value.([]any)
	if !isList {
		return nil, fmt.Errorf("decision.accept: want a list, got %s", kindOf(value))
	}
	accept := make([]string, 0, len(entries))
	for i, entry := range entries {
		name, _ := entry.(string)
		if !lackName.MatchString(name) {
			return nil, fmt.Errorf(`decision.accept[%d]: want the name of a mechanism, such as "cgroup.memory"`, i)
		}
		accept = append(accept, name)
	}
	slices.Sort(accept)
	return slices.Compact(accept), nil
}

func readLabels(value any) (map[string]string, error) {
	if value == nil {
		return nil, nil
	}
	object, isObject := value.(map[string]any)
	if !isObject {
		return nil, fmt.Errorf("decision.labels: want an object, got %s", kindOf(value))
	}
	labels := make(map[string]string, len(object))
	for name, value := range object {
		text, isText := value.(string)
		if !isText {
			return nil, fmt.Errorf("decision.labels: %q: want a text", name)
		}
		labels[name] = text
	}
	return labels, nil
}

func (a *answer) readEffective(value any) error {
	a.effective.OnOutputLimit = onLimit[0]
	if value == nil {
		return nil
	}
	object, err := members(value, "decision.effective", "securityContext", "network", "limits", "onOutputLimit", "explainDenials")
	if err != nil {
		return err
	}
	if a.effective.SecurityContext, a.context, err = readPart(object, "securityContext", policy.ParseSecurityContext); err != nil {
		return err
	}
	if a.effective.Network, a.network, err = readPart(object, "network", policy.ParseNetwork); err != nil {
		return err
	}
	if a.effective.Limits, a.limits, err = readPart(object, "limits", policy.ParseLimits); err != nil {
		return err
	}
	if then, there := object["onOutputLimit"]; there {
		text, _ := then.(string)
		if !slices.Contains(onLimit, text) {
			return fmt.Errorf("decision.effective.onOutputLimit: want one of %v", onLimit)
		}
		a.effective.OnOutputLimit = text
	}
	if explain, there := object["explainDenials"]; there {
		var isBool bool
		if a.effective.ExplainDenials, isBool = explain.(bool); !isBool {
			return errors.New("decision.effective.explainDenials: want true or false")
		}
	}
	return nil
}

// readPart gives what the policy wrote to the same strict parser that reads it from a caller.
func readPart[T any](object map[string]any, name string, parse func([]byte) (T, error)) (part T, there bool, err error) {
	value, there := object[name]
	if !there {
		return part, false, nil
	}
	data, err := marshal(value)
	if err == nil {
		part, err = parse(data)
	}
	if err != nil {
		return part, false, fmt.Errorf("decision.effective.%w", err)
	}
	return part, true, nil
}

// marshal writes a value of Rego. Numbers are json.Number there, which encoding/json knows.
func marshal(value any) (jsontext.Value, error) {
	data, err := json.Marshal(value)
	return jsontext.Value(data), err
}

func kindOf(value any) string {
	switch value.(type) {
	case nil:
		return "nothing"
	case bool:
		return "a truth value"
	case string:
		return "a text"
	case json.Number:
		return "a number"
	case []any:
		return "a list or a set"
	case map[string]any:
		return "an object"
	}
	return "something else"
}
