package execd

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sandboxd/sandboxd/runner/python"
)

// Prewarm is a kind of interpreters that are started ahead of the runs that they serve, each in a sandbox of its own, confined, and used once.
type Prewarm struct {
	// Imports are the modules that it has imported when its job comes.
	Imports []string
	// Size is how many wait, for each of the confinements that runs ask for most.
	Size int
}

// What may be started ahead.
const (
	mostPrewarms    = 8
	mostImports     = 64
	mostInterpreter = 64
)

// ParsePrewarm reads "json,pandas:2": modules, and how many interpreters wait with them imported. ":2" are two with nothing imported.
func ParsePrewarm(text string) (Prewarm, error) {
	names, count, found := strings.Cut(text, ":")
	size, err := strconv.Atoi(count)
	if !found || err != nil || count != strconv.Itoa(size) {
		return Prewarm{}, fmt.Errorf("%q: want modules and a number of interpreters, such as json,pandas:2, or :2 for none imported", text)
	}
	p := Prewarm{Size: size}
	if names != "" {
		p.Imports = strings.Split(names, ",")
	}
	return p, p.check()
}

func (p Prewarm) String() string { return strings.Join(p.Imports, ",") + ":" + strconv.Itoa(p.Size) }

func (p Prewarm) check() error {
	switch {
	case p.Size < 1 || p.Size > mostInterpreter:
		return fmt.Errorf("%d interpreters: want 1..%d", p.Size, mostInterpreter)
	case len(p.Imports) > mostImports:
		return fmt.Errorf("%d modules: want at most %d", len(p.Imports), mostImports)
	}
	return python.CheckImports(p.Imports)
}

// checkPrewarm refuses sets of which one is there twice: nobody could tell which is meant.
func checkPrewarm(sets []Prewarm) error {
	if len(sets) > mostPrewarms {
		return fmt.Errorf("%d of them: want at most %d", len(sets), mostPrewarms)
	}
	for i, set := range sets {
		if err := set.check(); err != nil {
			return fmt.Errorf("%s: %w", set, err)
		}
		if slices.ContainsFunc(sets[:i], func(other Prewarm) bool { return slices.Equal(sorted(other.Imports), sorted(set.Imports)) }) {
			return fmt.Errorf("%s: these modules are there twice", set)
		}
	}
	return nil
}

func sorted(names []string) []string { return slices.Sorted(slices.Values(names)) }
