package execd

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

const goodToken = "0123456789abcdefghijklmnopqrstuvwxyz-._~+/="

func tokenFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestTokenFiles(t *testing.T) {
	for _, content := range []string{goodToken, goodToken + "\n", strings.Repeat("x", longestToken) + "\n"} {
		token, owner, err := readToken(tokenFile(t, content))
		if err != nil || string(token) != strings.TrimSuffix(content, "\n") || owner.UID != os.Geteuid() || owner.PID != 0 || owner.Via != "token" {
			t.Errorf("%.50q: %q, %+v, %v", content, token, owner, err)
		}
	}
	for _, test := range []struct {
		name, content, want string
		change              func(path string) error
	}{
		{"empty", "", "0 characters", nil},
		{"short", goodToken[:shortestToken-1] + "\n", "31 characters", nil},
		{"long", strings.Repeat("x", longestToken+1), "4097 characters", nil},
		{"two lines", goodToken + "\n" + goodToken + "\n", "one line", nil},
		{"carriage return", goodToken + "\r\n", "one line", nil},
		{"space in it", goodToken + " " + goodToken, "without spaces", nil},
		{"beyond ASCII", goodToken + "é", "printable ASCII", nil},
		{"readable by the group", goodToken, "mode 0640", func(path string) error { return os.Chmod(path, 0o640) }},
		{"readable by all", goodToken, "mode 0604", func(path string) error { return os.Chmod(path, 0o604) }},
		{"writable by the group", goodToken, "mode 0620", func(path string) error { return os.Chmod(path, 0o620) }},
		{"a link", goodToken, "too many levels", func(path string) error {
			if err := os.Rename(path, path+"2"); err != nil {
				return err
			}
			return os.Symlink(path+"2", path)
		}},
		{"a FIFO", goodToken, "not a regular file", func(path string) error {
			if err := os.Remove(path); err != nil {
				return err
			}
			return unix.Mkfifo(path, 0o600)
		}},
		{"a directory", goodToken, "not a regular file", func(path string) error {
			if err := os.Remove(path); err != nil {
				return err
			}
			return os.Mkdir(path, 0o700)
		}},
		{"another's", goodToken, "belongs to uid 12345", func(path string) error { return os.Chown(path, 12345, 12345) }},
		{"not there", goodToken, "no such file", os.Remove},
	} {
		if test.name == "another's" && os.Geteuid() != 0 {
			continue // only root can make one
		}
		path := tokenFile(t, test.content)
		if test.change != nil {
			if err := test.change(path); err != nil {
				t.Fatal(err)
			}
		}
		l, err := ListenToken("127.0.0.1:0", path, false)
		if err == nil {
			l.Close()
		}
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), goodToken) {
			t.Errorf("%s: %v, want an error with %q and without the token", test.name, err, test.want)
		}
	}
}

func TestTokenAddresses(t *testing.T) {
	path := tokenFile(t, goodToken)
	for _, address := range []string{"0.0.0.0:0", "[::]:0", ":0", "localhost:0", "192.0.2.1:0", "127.0.0.1", "[::ffff:192.0.2.1]:0", "10.0.0.1:0", "", "[::1%lo:0"} {
		if l, err := ListenToken(address, path, false); err == nil {
			l.Close()
			t.Errorf("%q was taken", address)
		}
	}
	for address, beyond := range map[string]bool{"127.0.0.1:0": false, "127.3.2.1:0": false, "0.0.0.0:0": true} {
		l, err := ListenToken(address, path, beyond)
		if err != nil {
			t.Errorf("%s: %v", address, err)
			continue
		}
		l.Close()
	}
}

// TestTokenCallers asks over TCP with all kinds of tokens, and over the socket beside it: each way has its own callers.
func TestTokenCallers(t *testing.T) {
	l, err := ListenToken("127.0.0.1:0", tokenFile(t, goodToken+"\n"), false)
	if err != nil {
		t.Fatal(err)
	}
	c := testConfig(t)
	d := serve(t, c, l)
	base := "http://" + l.Addr().String()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	ask := func(method, path, body string, tokens ...string) answer {
		t.Helper()
		return d.ask(t, client, method, base, path, body, tokens)
	}
	for _, tokens := range [][]string{
		nil, {""}, {"Bearer"}, {"Bearer "}, {"Bearer " + goodToken[1:]}, {"Bearer " + goodToken + "x"}, {"Bearer  " + goodToken},
		{"Basic " + goodToken}, {goodToken}, {"Bearer " + goodToken, "Bearer " + goodToken}, {"Bearer " + strings.ToUpper(goodToken)},
	} {
		for _, path := range []string{"/healthz", "/metrics", "/v1/status", "/nowhere"} {
			got := ask("GET", path, "", tokens...)
			if e := got.failure(t); e.Code != "UNAUTHORIZED" || got.header.Get("WWW-Authenticate") != "Bearer" {
				t.Errorf("GET %s with %q: %d %s", path, tokens, got.status, got.body)
			}
		}
	}
	exec := `{"command":{"argv":["echo","hello"]}}`
	if got := ask("POST", "/v1/exec", exec); got.status != 401 {
		t.Errorf("without a token: %d %s", got.status, got.body)
	}
	for _, scheme := range []string{"Bearer ", "bearer "} {
		got := ask("POST", "/v1/exec", exec, scheme+goodToken)
		if r := got.reply(t); r.Outcome != OutcomeOK || *r.Stdout != "hello\n" {
			t.Errorf("with the token: %d %s", got.status, got.body)
		}
	}
	// A sandbox is its maker's, by the way he came.
	box := d.makeSandbox(t)
	if got := ask("GET", "/v1/sandboxes/"+box.ID, "", "Bearer "+goodToken); got.status != 404 {
		t.Errorf("the socket's sandbox by token: %d %s", got.status, got.body)
	}
	if got := ask("GET", "/v1/sandboxes", "", "Bearer "+goodToken); string(got.body) != `{"sandboxes":[]}`+"\n" {
		t.Errorf("the token's sandboxes: %s", got.body)
	}
	d.waitFor(t, "sandboxd_refused_connections_total 45")
	if err := d.stop(); err != nil {
		t.Fatal(err)
	}
	asked := 0
	for _, r := range readLog(t, c) {
		if text := fmt.Sprintf("%+v", r); strings.Contains(text, goodToken) {
			t.Errorf("the token is in the log: %s", text)
		}
		if r.Caller != nil && r.Caller.Via == "token" && r.Type == "release" {
			asked++
			if r.Caller.UID != os.Geteuid() || r.Caller.PID != 0 {
				t.Errorf("caller %+v", r.Caller)
			}
		}
	}
	if asked != 2 {
		t.Errorf("%d releases of a token's caller, want 2", asked)
	}
}
