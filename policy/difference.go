package policy

import (
	"bytes"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"slices"
)

// Difference is one field that isn't in force as it was asked for, both in their Defaulted forms. A value that isn't set is nil: of a limit that is
// none, of an id the sandbox's own.
type Difference struct {
	Field   string         `json:"field"`
	Asked   jsontext.Value `json:"asked"`
	InForce jsontext.Value `json:"inForce"`
}

// Differences lists what policy tightened of a request that it allows, field by field, in order.
func Differences(r Request, in Effective) ([]Difference, error) {
	asked, err := leaves(Effective{SecurityContext: r.SecurityContext.Defaulted(), Network: r.Network.Defaulted(), Limits: r.Limits.Defaulted()})
	if err != nil {
		return nil, err
	}
	have, err := leaves(Effective{SecurityContext: in.SecurityContext.Defaulted(), Network: in.Network.Defaulted(), Limits: in.Limits.Defaulted()})
	if err != nil {
		return nil, err
	}
	fields := slices.Concat(sortedKeys(asked), sortedKeys(have))
	slices.Sort(fields)
	differences := []Difference{}
	for _, field := range slices.Compact(fields) {
		if !bytes.Equal(asked[field], have[field]) {
			differences = append(differences, Difference{Field: field, Asked: asked[field], InForce: have[field]})
		}
	}
	return differences, nil
}

// leaves are the values that aren't objects, by their paths. A list is one value: its order and length are what is asked.
func leaves(in Effective) (map[string]jsontext.Value, error) {
	data, err := json.Marshal(in, json.Deterministic(true))
	if err != nil {
		return nil, err
	}
	found := map[string]jsontext.Value{}
	return found, addLeaves(found, "", data)
}

func addLeaves(found map[string]jsontext.Value, path string, value jsontext.Value) error {
	switch value.Kind() {
	case 'n':
		return nil
	case '{':
	default:
		found[path] = value
		return nil
	}
	var object map[string]jsontext.Value
	if err := json.Unmarshal(value, &object); err != nil {
		return err
	}
	for name, inner := range object {
		if err := addLeaves(found, member(path, name), inner); err != nil {
			return err
		}
	}
	return nil
}
