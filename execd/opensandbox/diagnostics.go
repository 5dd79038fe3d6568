package opensandbox

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sandboxd/sandboxd/execd"
)

// wireDiagnostics is what is known of a sandbox besides its state.
type wireDiagnostics struct {
	SandboxID   string   `json:"sandboxId"`
	Kind        string   `json:"kind"`
	Scope       string   `json:"scope"`
	Delivery    string   `json:"delivery"`
	ContentType string   `json:"contentType"`
	Content     string   `json:"content"`
	Length      int      `json:"contentLength"`
	Truncated   bool     `json:"truncated"`
	Warnings    []string `json:"warnings,omitempty"`
}

// scopes are what may be asked for of each kind: what the reference has, and lifecycle, which is all that this server has of both.
var scopes = map[string][]string{
	"logs":   {"all", "container", "lifecycle"},
	"events": {"all", "lifecycle", "runtime"},
}

// mostLog is how much of an entrypoint's output is told: its end.
const mostLog = 256 << 10

// getDiagnostics tells of a sandbox what is known of it: the output of its entrypoint, what has happened to it, and, read back now, what holds it. With a scope
// the answer is a descriptor; the older calls, which have none, want text.
func (f *Facade) getDiagnostics(x *exchange) error {
	kind, query := x.values["kind"], x.r.URL.Query()
	var text string
	truncated := false
	tail, err := number(query, "tail", mostEvents, 1, 1<<20)
	if err != nil {
		return err
	}
	limit, err := number(query, "limit", mostEvents, 1, 1<<20)
	if err != nil {
		return err
	}
	switch kind {
	case "logs":
		text, truncated = x.box.entrypointLog(tail)
	case "events":
		text, truncated = x.box.events.text(limit)
	case "inspect":
		if text, err = f.inspect(x); err != nil {
			return err
		}
	case "summary":
		if text, err = f.summary(x, tail); err != nil {
			return err
		}
	default:
		return faultf(http.StatusNotImplemented, codeUnsupported, "diagnostics: %.40s isn't served; logs, events, inspect and summary are", kind)
	}
	if !query.Has("scope") {
		return x.answerText(text)
	}
	scope := query.Get("scope")
	if !slices.Contains(scopes[kind], scope) {
		return bad("scope", "%.40q: want one of %s", scope, strings.Join(scopes[kind], ", "))
	}
	answer := wireDiagnostics{
		SandboxID: x.box.id, Kind: kind, Scope: scope, Delivery: "inline", ContentType: textType, Content: text, Length: len(text), Truncated: truncated,
	}
	if x.box.lost {
		answer.Warnings = []string{errLost.Error()}
	}
	x.answer(http.StatusOK, answer)
	return nil
}

const textType = "text/plain; charset=utf-8"

// answerText answers text as it is.
func (x *exchange) answerText(text string) error {
	header := x.w.Header()
	header.Set("Content-Type", textType)
	header.Set("Content-Length", fmt.Sprint(len(text)))
	x.bounded(func() {
		x.w.WriteHeader(http.StatusOK)
		_, _ = x.w.Write([]byte(text)) // a client that has gone has no use for it
	})
	return nil
}

// entrypointLog is the end of what the entrypoint has written, at most so many lines, and whether there was more. One that only keeps a container from ending
// isn't run, and says nothing.
func (box *sandbox) entrypointLog(lines int) (text string, more bool) {
	if box.entered == nil {
		return "", false
	}
	_, end, err := box.entered.from(1 << 62) // where it ends now
	if err != nil {
		return err.Error() + "\n", true
	}
	data, _, err := box.entered.from(max(0, end-mostLog))
	if err != nil {
		return err.Error() + "\n", true
	}
	more = end > mostLog || box.entered.isCut()
	kept := slices.Collect(strings.Lines(strings.ToValidUTF8(string(data), string(utf8.RuneError))))
	if len(kept) > lines {
		kept, more = kept[len(kept)-lines:], true
	}
	return strings.Join(kept, ""), more
}

// summary is all of it.
func (f *Facade) summary(x *exchange, tail int) (string, error) {
	inspected, err := f.inspect(x)
	if err != nil {
		return "", err
	}
	most, err := number(x.r.URL.Query(), "event_limit", mostEvents, 1, 1<<20)
	if err != nil {
		return "", err
	}
	happened, _ := x.box.events.text(most)
	said, _ := x.box.entrypointLog(tail)
	return inspected + "\nevents\n" + happened + "\nentrypoint\n" + said, nil
}

// inspect tells what a sandbox is, and what the kernel says of it now: the sandbox itself, what runs in it, and what came of forbidden acts.
func (f *Facade) inspect(x *exchange) (string, error) {
	var text strings.Builder
	w := f.wire(x.box)
	line := func(name string, value any) { fmt.Fprintf(&text, "%s: %v\n", name, value) }
	line("id", w.ID)
	line("state", w.Status.State)
	if w.Status.Message != "" {
		line("message", w.Status.Message)
	}
	line("image", w.Image.URI)
	line("created", w.CreatedAt.Format(time.RFC3339))
	if w.ExpiresAt != nil {
		line("expires", w.ExpiresAt.Format(time.RFC3339))
	}
	line("entrypoint", quoted(w.Entrypoint))
	if w.Status.State != stateRunning {
		return text.String(), nil // nothing of it can be tried
	}
	line("limits of each command", fmt.Sprintf("%g cores, %d bytes", x.box.limits.CPU, x.box.limits.MemoryBytes))
	network, err := f.proven(x.box)
	if err != nil {
		line("network", "not as it should be: "+err.Error())
	} else {
		fmt.Fprintf(&text, "network: default %s%s\n", network.DefaultAction, network.rules())
	}
	proof, err := f.service.Verify(x.r.Context(), execd.VerifyRequest{Sandbox: x.box.inner}, x.caller, true)
	if err != nil {
		return "", err
	}
	line("kernel", proof.Kernel)
	line("tier", proof.Tier)
	rows := 0
	var table strings.Builder
	part := func(name string, proof execd.Proof) {
		fmt.Fprintf(&table, "\n%s\n", name)
		rows += len(proof.Rows)
		for _, row := range proof.Rows {
			held := "held"
			if !row.Held {
				held = "BROKEN"
			}
			fmt.Fprintf(&table, "  %-6s %-7s %s: %s", held, row.Evidence, row.Control, row.Got)
			if !row.Held {
				fmt.Fprintf(&table, ", want %s", row.Want)
			}
			table.WriteByte('\n')
		}
	}
	for _, p := range proof.Sandboxes {
		part("sandbox", p.Verdict)
	}
	for _, p := range proof.Execs {
		part("program "+p.ID, p.Verdict)
	}
	for _, p := range proof.Probes {
		part("forbidden acts"+strings.TrimSuffix(": "+p.Message, ": "), p.Verdict)
	}
	fmt.Fprintf(&text, "held: %t, %d rows, read back %s, record %d\n", proof.Held, rows, time.Now().UTC().Format(time.RFC3339), proof.AuditSequence)
	return text.String() + table.String(), nil
}

// rules are a policy's rules in one line, each with a space before it.
func (p networkPolicy) rules() string {
	var text strings.Builder
	for _, rule := range p.Egress {
		text.WriteString(", " + rule.Action + " " + rule.Target)
	}
	return text.String()
}
