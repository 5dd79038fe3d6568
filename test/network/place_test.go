package network

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// place is where a client runs: in the test network itself, or in a sandbox of it.
type place struct {
	w *World
	// enter, if there is one, starts the command in another network namespace.
	enter func(*exec.Cmd) error
}

// clientScript has the test network's name server in resolv.conf, in a mount namespace of the command's own.
const clientScript = `mount --bind "$RESOLV_CONF" /etc/resolv.conf && exec "$@"`

// run is what a client said, both of its outputs, and its exit status at the end.
func (p place) run(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	command := exec.CommandContext(ctx, "unshare", append([]string{"-m", "sh", "-c", clientScript, "sh"}, args...)...)
	home := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command.Dir = home
	command.Env = []string{
		"PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME=" + home, "RESOLV_CONF=" + p.w.ResolvConf, "LC_ALL=C.UTF-8", "PGCONNECT_TIMEOUT=20",
		"CA=" + p.w.CA, "SSL_CERT_FILE=" + p.w.CA, "REQUESTS_CA_BUNDLE=" + p.w.CA, "NODE_EXTRA_CA_CERTS=" + p.w.CA,
		"GIT_TERMINAL_PROMPT=0", "GIT_CONFIG_SYSTEM=/dev/null", "GO_CLIENT=" + self,
	}
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, &out
	start := command.Start
	if p.enter != nil {
		start = func() error { return p.enter(command) }
	}
	if err := start(); err != nil {
		t.Fatal(err)
	}
	_ = command.Wait()
	return fmt.Sprintf("%s exit %d", strings.TrimSpace(out.String()), command.ProcessState.ExitCode())
}
