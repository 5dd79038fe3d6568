package execd

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
)

// checkShow refuses to show what is the daemon's own, or has it in it: who reads the audit log reads what everybody ran, and who connects to the
// socket is, by the kernel's word, a user that may ask for more.
func (c Config) checkShow() error {
	for _, show := range c.Show {
		for _, own := range append([]string{c.StateDir, c.AuditDir, c.PolicyDir, c.ProfileDir, c.ClaimFile}, c.Private...) {
			if own == "" {
				continue
			}
			if a, b := resolved(show), resolved(own); inside(a, b) || inside(b, a) {
				return fmt.Errorf("show %q: %s is sandboxd's own, and no sandbox may see it; show a directory that hasn't to do with it, or move it", show, own)
			}
		}
	}
	return nil
}

// resolved follows links as far as a path is there.
func resolved(path string) string {
	path = filepath.Clean(path)
	target, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) && path != "/" {
		return filepath.Join(resolved(filepath.Dir(path)), filepath.Base(path))
	}
	if err != nil {
		return path
	}
	return target
}

// inside says that path is dir or lies below it.
func inside(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}
