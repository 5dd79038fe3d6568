package python

import (
	"fmt"
	"slices"
	"strings"
)

// longestModule bounds a module's name.
const longestModule = 128

// CheckImports refuses what isn't a list of different module names.
func CheckImports(names []string) error {
	for i, name := range names {
		switch {
		case len(name) > longestModule || !moduleName(name):
			return fmt.Errorf("%.200q: want a module's name, such as json or xml.etree", name)
		case slices.Contains(names[:i], name):
			return fmt.Errorf("%q is there twice", name)
		}
	}
	return nil
}

// moduleName says whether it is a name as an import statement has it: identifiers with dots between. In Python they may have other letters, which
// nobody uses. (By hand, since this package is part of the launcher, whose size is bounded; regexp is a fortieth of that.)
func moduleName(name string) bool {
	for part := range strings.SplitSeq(name, ".") {
		if part == "" || '0' <= part[0] && part[0] <= '9' {
			return false
		}
		if strings.Trim(part, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") != "" {
			return false
		}
	}
	return true
}
