package engine

import (
	"context"
	"maps"
	"slices"
	"strconv"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/topdown"

	"github.com/sandboxd/sandboxd/policy"
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
		for _, rule := range modules[name].Rules {
			annotations := ownAnnotations(rule)
			label := labelOf(annotations)
			if label == "" || lastName(rule.Ref()) != denying {
				continue
			}
			rules = append(rules, Rule{
				Label: label, Title: annotations.Title, Description: annotations.Description, File: name, Line: rule.Location.Row,
			})
		}
	}
	return rules
}

// ownAnnotations is the METADATA written at the rule itself, or at all rules of its name; nil when there is none.
func ownAnnotations(rule *ast.Rule) *ast.Annotations {
	for _, annotations := range slices.Backward(rule.Annotations) {
		if annotations.Scope == "rule" || annotations.Scope == "document" {
			return annotations
		}
	}
	return nil
}

// labelOf is the label that reasons name.
func labelOf(annotations *ast.Annotations) string {
	if annotations == nil {
		return ""
	}
	label, _ := annotations.Labels["rule"].(string)
	return label
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

// speakers notes which rules had an answer. As a tracer it sees every rule that is entered and left; one of [denying] that is left has spoken.
type speakers struct{ left map[string]bool }

func (*speakers) Enabled() bool { return true }

func (*speakers) Config() topdown.TraceConfig { return topdown.TraceConfig{} }

func (s *speakers) TraceEvent(event topdown.Event) {
	if rule, isRule := event.Node.(*ast.Rule); isRule && event.Op == topdown.ExitOp && rule.Location != nil {
		s.left[place(rule.Location.File, rule.Location.Row)] = true
	}
}

func place(file string, line int) string { return file + ":" + strconv.Itoa(line) }

// spoke are the rules of a label that had an answer to this request.
func (g *generation) spoke(ctx context.Context, request policy.Request) []Rule {
	heard := &speakers{left: map[string]bool{}}
	if _, err := g.judge(ctx, look(request), rego.EvalQueryTracer(heard)); err != nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(g.rules), func(rule Rule) bool { return !heard.left[place(rule.File, rule.Line)] })
}
