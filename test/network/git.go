package network

import (
	"fmt"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// repository is the path of a git repository that every web host has.
const repository = "project.git"

// makeRepository has one commit with one file, README.
func (w *World) makeRepository() error {
	work := filepath.Join(w.Dir, "work")
	bare := filepath.Join(w.Dir, "git", repository)
	if err := os.MkdirAll(work, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(work, "README"), []byte("a project\n"), 0o644); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"-C", work, "init", "-q", "-b", "main"},
		{"-C", work, "add", "README"},
		{"-C", work, "-c", "user.name=nobody", "-c", "user.email=nobody@example.net", "commit", "-q", "-m", "README: what it is"},
		{"clone", "-q", "--bare", work, bare},
	} {
		command := exec.Command("git", args...)
		command.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
		if out, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("git %v: %w: %s", args, err, out)
		}
	}
	return nil
}

// gitHandler is git's own server of its smart protocol.
func (w *World) gitHandler() http.Handler {
	out, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		return http.NotFoundHandler()
	}
	return &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(out)), "git-http-backend"),
		Env:  []string{"GIT_PROJECT_ROOT=" + filepath.Join(w.Dir, "git"), "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_GLOBAL=/dev/null"},
	}
}
