package python

import (
	"fmt"
	"regexp"
	"slices"
)

// moduleName is a name as an import statement has it; in Python it may have other letters, which nobody uses.
var moduleName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$`)

// longestModule bounds a module's name.
const longestModule = 128

// CheckImports refuses what isn't a list of different module names.
func CheckImports(names []string) error {
	for i, name := range names {
		switch {
		case len(name) > longestModule || !moduleName.MatchString(name):
			return fmt.Errorf("%.200q: want a module's name, such as json or xml.etree", name)
		case slices.Contains(names[:i], name):
			return fmt.Errorf("%q is there twice", name)
		}
	}
	return nil
}
