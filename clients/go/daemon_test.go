package sandboxd_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	sandboxd "github.com/sandboxd/sandboxd/clients/go"
)

// The daemon of these tests is the program as it is installed. Its socket is where the examples look for it.
var (
	socket  string
	address string
	token   string
)

func TestMain(m *testing.M) {
	status, err := withDaemon(m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = 1
	}
	os.Exit(status)
}

func withDaemon(run func() int) (status int, err error) {
	dir, err := os.MkdirTemp("", "client")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	bin := os.Getenv("SANDBOXD_BIN")
	if bin == "" {
		bin = dir
		for _, name := range []string{"sandboxd", "sandboxd-runner"} {
			build := exec.Command("go", "build", "-o", filepath.Join(bin, name), "../../cmd/"+name)
			build.Env = append(os.Environ(), "CGO_ENABLED=0")
			if out, err := build.CombinedOutput(); err != nil {
				return 0, fmt.Errorf("go build %s: %w\n%s", name, err, out)
			}
		}
	}
	socket, token = filepath.Join(dir, "run", "s"), "correct-horse-battery-staple-0123456789"
	secret := filepath.Join(dir, "token")
	if err := os.WriteFile(secret, []byte(token+"\n"), 0o600); err != nil {
		return 0, err
	}
	if address, err = freeAddress(); err != nil {
		return 0, err
	}
	var log bytes.Buffer
	daemon := exec.Command(filepath.Join(bin, "sandboxd"), "serve", "--socket", socket, "--state", filepath.Join(dir, "state"),
		"--listen", address, "--token-file", secret, "--max-running", "2", "--max-waiting", "0", "--max-sandboxes", "4")
	daemon.Stderr = &log
	if err := daemon.Start(); err != nil {
		return 0, err
	}
	ended := make(chan error, 1)
	go func() { ended <- daemon.Wait() }()
	defer func() {
		_ = daemon.Process.Signal(syscall.SIGINT)
		if why := <-ended; why != nil && err == nil {
			err = fmt.Errorf("sandboxd serve: %w\n%s", why, &log)
		}
	}()
	client := sandboxd.New(socket)
	defer client.Close()
	for until := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if err = client.Ready(context.Background()); err == nil {
			return run(), nil
		}
		if time.Now().After(until) || len(ended) > 0 {
			return 0, fmt.Errorf("the daemon isn't ready: %w\n%s", err, &log)
		}
	}
}

// freeAddress is one that nobody had just now.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// need skips what a host without a fence can't do.
func need(t *testing.T, mechanism string) {
	t.Helper()
	status, err := connect(t).Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range status.Host.Mechanisms {
		if m.Name == mechanism && !m.Have {
			t.Skip(strings.Join([]string{m.Name, m.Detail, m.HowToGet}, ": "))
		}
	}
}

func connect(t *testing.T) *sandboxd.Client {
	t.Helper()
	client := sandboxd.New(socket)
	t.Cleanup(client.Close)
	return client
}
