package opensandbox

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// wireDiagnostics is what is known of a sandbox besides its state.
type wireDiagnostics struct {
	SandboxID   string `json:"sandboxId"`
	Kind        string `json:"kind"`
	Scope       string `json:"scope"`
	Delivery    string `json:"delivery"`
	ContentType string `json:"contentType"`
	Content     string `json:"content"`
	Length      int    `json:"contentLength"`
	Truncated   bool   `json:"truncated"`
}

// getDiagnostics tells of a sandbox's life, as far as this façade knows it; the audit log has the rest, for who runs the server.
func (f *Facade) getDiagnostics(x *exchange) error {
	kind, scope := x.values["kind"], x.r.URL.Query().Get("scope")
	switch {
	case kind != "logs" && kind != "events":
		return faultf(http.StatusNotImplemented, codeUnsupported, "diagnostics: %.40s isn't served; logs and events are", kind)
	case scope != "" && scope != "lifecycle":
		return bad("scope", "%.40q: this server has lifecycle", scope)
	}
	status := f.status(x.box)
	x.box.mu.Lock()
	var text strings.Builder
	fmt.Fprintf(&text, "%s created from image %s\n", x.box.created.UTC().Format(time.RFC3339Nano), x.box.image)
	if !x.box.expires.IsZero() {
		fmt.Fprintf(&text, "%s expires\n", x.box.expires.UTC().Format(time.RFC3339Nano))
	}
	x.box.mu.Unlock()
	fmt.Fprintf(&text, "%s %s %s\n", time.Now().UTC().Format(time.RFC3339Nano), strings.ToLower(status.State), status.Message)
	x.answer(http.StatusOK, wireDiagnostics{
		SandboxID: x.box.id, Kind: kind, Scope: "lifecycle", Delivery: "inline", ContentType: "text/plain; charset=utf-8", Content: text.String(), Length: text.Len(),
	})
	return nil
}
