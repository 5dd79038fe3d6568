package execd

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestShowRefusesWhatIsOurs(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"state", "elsewhere/audit", "policy", "profiles", "run", "free"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Symlink("elsewhere", dir+"/link"), os.Symlink(dir+"/run", dir+"/other-run")); err != nil {
		t.Fatal(err)
	}
	for show, ours := range map[string]string{
		"state": "state", "state/audit": "state", "elsewhere": "elsewhere/audit", "elsewhere/audit": "elsewhere/audit", "link": "elsewhere/audit",
		"policy": "policy", "profiles": "profiles", "run": "other-run/s", "run/s": "other-run/s", "other-run": "other-run/s", "ids": "ids",
		"free": "", "stat": "", "elsewhere/audit-of-others": "", "run/s.old": "", "": "state",
	} {
		c := DefaultConfig(dir + "/state")
		c.AuditDir, c.PolicyDir, c.ProfileDir, c.ClaimFile = dir+"/elsewhere/audit", dir+"/policy", dir+"/profiles", dir+"/ids"
		c.Private = []string{dir + "/other-run/s"}
		c.Show = []string{filepath.Join(dir, show)}
		err := c.Validate()
		if ours == "" {
			if err != nil {
				t.Errorf("%s: %v", show, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), filepath.Join(dir, ours)+" is sandboxd's own") {
			t.Errorf("%s: %v, want %s named", show, err, ours)
		}
	}
}
