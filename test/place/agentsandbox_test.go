package place

import (
	"context"
	"encoding/json/v2"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/execd"
	"github.com/sandboxd/sandboxd/policy/engine"
	"github.com/sandboxd/sandboxd/rego"
)

// TestAgentSandbox: a pod of a warm pool of agent-sandbox. It waits without a policy, proven and shut, gets one, and then answers its runtime's protocol with
// the container as its sandbox.
func TestAgentSandbox(t *testing.T) {
	p := newPod(t)
	defer p.say()
	p.start("", "--agent-sandbox-listen", "127.0.0.1:8888", "--agent-sandbox-insecure", "--agent-sandbox-root", "/tmp", "--policy-late", "--policy-binder", "0")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(context.Context, string, string) (conn net.Conn, err error) {
		p.within(func() error { conn, err = net.Dial("tcp4", "127.0.0.1:8888"); return err })
		return conn, err
	}}}
	ask := func(method, path, body string) (int, string) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), method, "http://pod"+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		data, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, string(data)
	}
	wants := func(method, path, body string, status int, words string) {
		t.Helper()
		if got, said := ask(method, path, body); got != status || !strings.Contains(said, words) {
			t.Errorf("%s %s: %d %s, want %d with %q", method, path, got, said, status, words)
		}
	}
	wants("GET", "/", "", 200, `"ok"`)
	wants("POST", "/execute", `{"command":"true"}`, 403, "No policy is bound")
	wants("PUT", "/v1/files/a", "x", 403, "No policy is bound")

	bundle, err := engine.ReadBundle(rego.Bundle)
	if err != nil {
		t.Fatal(err)
	}
	request := execd.BindRequest{Files: map[string]string{}, Revision: bundle.Revision}
	for name, content := range bundle.Files {
		request.Files[name] = string(content)
	}
	body, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	if status, said := p.do(http.MethodPut, "/v1/policy", string(body)); status != 200 {
		t.Fatalf("%d %s", status, said)
	}
	if !p.recorded("bind", bundle.Revision) {
		t.Error("the binding isn't on record")
	}

	wants("POST", "/execute", `{"command":"id -u; echo there > made"}`, 200, `"stdout":"61301\n"`)
	wants("GET", "/v1/files/made", "", 200, "there\n")
	wants("PUT", "/v1/files/below%2Fwritten?mode=0600", "content", 204, "")
	wants("GET", "/v1/files/below", "", 200, `"name":"written","size":7,"type":"file"`)
	wants("POST", "/execute", `{"command":"cat below/written"}`, 200, `"stdout":"content"`)
	wants("DELETE", "/v1/files/below?recursive=true", "", 204, "")
	wants("GET", "/exists/below", "", 200, `"exists":false`)
	wants("GET", "/v1/files/..%2Fetc%2Fpasswd", "", 403, "leads out of /tmp")
	// The façade's port is on the loopback that the sandbox shares: it has no socket to get there by.
	if got := p.exec("bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/8888"); got.Outcome != "error" || !strings.Contains(got.Stderr, "Address family not supported") {
		t.Errorf("from within: %+v", got)
	}

	p.launcher.kill()
	p.isUnready()
	wants("GET", "/v1/health", "", 503, "no launcher is connected")
	wants("POST", "/execute", `{"command":"true"}`, 503, "no launcher is connected")
	p.connect()
	p.isReady()
	wants("POST", "/execute", `{"command":"echo again"}`, 200, "again")
}
