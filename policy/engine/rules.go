package engine

import (
	"cmp"
	"maps"
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
)

// Rule is a rule of the bundle as its METADATA describes it.
type Rule struct {
	// Label is what reasons name.
	Label       string `json:"label"`
	Title       string `json:"title"`
	Description string `json:"description,omitempty"`
	// File and Line say where it is in the bundle.
	File string `json:"file"`
	Line int    `json:"line"`
}

// denying is the name of the rules whose members speak against a request.
const denying = "deny"

// listRules lists the labelled rules that may speak against a request, in the order of files and lines.
func listRules(modules map[string]*ast.Module) []Rule {
	var rules []Rule
	for _, name := range slices.Sorted(maps.Keys(modules)) {
		for _, annotations := range modules[name].Annotations {
			label, _ := annotations.Labels["rule"].(string)
			if label == "" || lastName(annotations.GetTargetPath()) != denying {
				continue
			}
			location := cmp.Or(annotations.Location, &ast.Location{})
			rules = append(rules, Rule{
				Label: label, Title: annotations.Title, Description: annotations.Description, File: name, Line: location.Row,
			})
		}
	}
	return rules
}

// lastName is the name of the rule at the end of a path such as data.sandboxd.context.deny.
func lastName(path ast.Ref) string {
	for _, term := range slices.Backward(path) {
		if name, isText := term.Value.(ast.String); isText {
			return string(name)
		}
	}
	return ""
}
