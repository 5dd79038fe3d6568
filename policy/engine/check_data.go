package engine

import (
	"cmp"
	"encoding/json/jsontext"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/sandboxd/sandboxd/policy"
)

// dataRef is what a rule asks of data, as far as it is written out: data.settings.limits.maximum[name] is settings, limits, maximum.
type dataRef struct {
	path []string
	ref  ast.Ref
}

// place is where step i is written. Steps that came by an import have the place of another use of it.
func (r dataRef) place(i int) *ast.Location {
	for _, term := range r.ref[i+1:] {
		if term.Location != nil {
			return term.Location
		}
	}
	return cmp.Or(r.ref[0].Location, &ast.Location{})
}

// dataPaths holds data and rules against each other: a member that no rule looks at, and a path that is nowhere, are spelt wrong in one of the two.
// A path that is nowhere is undefined, which is no error in Rego and speaks against nothing.
func (c *checking) dataPaths(compiler *ast.Compiler) {
	refs := dataRefs(compiler.Modules)
	for _, ref := range refs {
		c.dataThere(compiler, ref)
	}
	// The engine's own: see [permitsUnconfined].
	refs = append(refs, dataRef{path: []string{"settings", "context", "seccomp_profile_types"}})
	c.dataUsed(refs, nil, c.bundle.data)
}

func dataRefs(modules map[string]*ast.Module) []dataRef {
	var refs []dataRef
	for _, name := range slices.Sorted(maps.Keys(modules)) {
		ast.WalkRefs(modules[name], func(ref ast.Ref) bool {
			if !ref.HasPrefix(ast.DefaultRootRef) {
				return false
			}
			var steps []string
			for _, term := range ref[1:] {
				text, isText := term.Value.(ast.String)
				if !isText {
					break
				}
				steps = append(steps, string(text))
			}
			refs = append(refs, dataRef{steps, ref})
			return false
		})
	}
	return refs
}

// dataThere looks for the path in data and among the rules.
func (c *checking) dataThere(compiler *ast.Compiler, ref dataRef) {
	var node any = c.bundle.data
	tree := compiler.RuleTree.Child(ast.DefaultRootDocument.Value)
	for i, step := range ref.path {
		if tree != nil && len(tree.Values) > 0 {
			return // The value of a rule: what is in it is the rule's.
		}
		above := tree
		if tree != nil {
			tree = tree.Child(ast.String(step))
		}
		object, isObject := node.(map[string]any)
		if node != nil && !isObject && tree == nil {
			return // An element of a list, or a part of what is no object: for the compiler to say.
		}
		node = object[step]
		if node != nil || tree != nil {
			continue
		}
		known, hint := append(slices.Sorted(maps.Keys(object)), ruleNames(above)...), ""
		if nearest := policy.Nearest(step, known); nearest != "" {
			hint = "; nearest is " + nearest
		}
		place := ref.place(i)
		c.mind(place.File, place.Row, "data.%s is nowhere, neither in data.json nor a rule%s", strings.Join(ref.path[:i+1], "."), hint)
		return
	}
}

// ruleNames are the packages and rules at a place of the tree.
func ruleNames(node *ast.TreeNode) []string {
	if node == nil {
		return nil
	}
	var names []string
	for key := range node.Children {
		if name, isText := key.(ast.String); isText {
			names = append(names, string(name))
		}
	}
	slices.Sort(names)
	return names
}

// dataUsed goes down to the members that rules look at.
func (c *checking) dataUsed(refs []dataRef, above []string, object map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(object)) {
		here := append(slices.Clone(above), name)
		whole := slices.ContainsFunc(refs, func(ref dataRef) bool { return hasPrefix(here, ref.path) })
		if whole {
			continue
		}
		if !slices.ContainsFunc(refs, func(ref dataRef) bool { return hasPrefix(ref.path, here) }) {
			file, line := c.memberPlace(here)
			c.mind(file, line, "no rule looks at data.%s", strings.Join(here, "."))
			continue
		}
		if inner, isObject := object[name].(map[string]any); isObject {
			c.dataUsed(refs, here, inner)
		}
	}
}

func hasPrefix(path, prefix []string) bool {
	return len(path) >= len(prefix) && slices.Equal(path[:len(prefix)], prefix)
}

// memberPlace finds the data.json with a member, and the member's line.
func (c *checking) memberPlace(member []string) (string, int) {
	for folder := len(member) - 1; folder >= 0; folder-- {
		name := path.Join(path.Join(member[:folder]...), "data.json")
		content, there := c.src.files[name]
		if !there {
			continue
		}
		pointer := jsontext.Pointer("")
		for _, step := range member[folder:] {
			pointer = pointer.AppendToken(step)
		}
		if line := memberLines(content)[pointer]; line > 0 {
			return name, line
		}
	}
	return "data.json", 0
}
