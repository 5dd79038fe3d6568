package opensandbox

import (
	"encoding/json/v2"
	"strings"
	"testing"
)

// overlaid is an isolated session with an overlay.
type overlaid struct {
	b  box
	id string
}

func (b box) overlaid(more string) overlaid {
	b.s.t.Helper()
	var made struct {
		SessionID string `json:"session_id"`
	}
	b.call("POST", "/v1/isolated/session", `{"workspace":{"path":"/work","mode":"overlay"}`+more+`}`).must(201).into(&made)
	return overlaid{b, made.SessionID}
}

// text is what a run says, all of it.
func (o overlaid) text(code string) string {
	o.b.s.t.Helper()
	body, err := json.Marshal(map[string]string{"code": code})
	if err != nil {
		o.b.s.t.Fatal(err)
	}
	var texts []string
	for _, frame := range strings.Split(strings.TrimSpace(o.b.call("POST", "/v1/isolated/session/"+o.id+"/run", string(body)).must(200).body), "\n\n") {
		var e event
		if err := json.Unmarshal([]byte(frame), &e); err != nil {
			o.b.s.t.Fatalf("%q: %v", frame, err)
		}
		if e.Type == "stdout" || e.Type == "stderr" {
			texts = append(texts, e.Text)
		}
	}
	return strings.Join(texts, "|")
}

// A session with an overlay sees its sandbox's files and changes none of them; what it takes is its own, bounded, and gone with it.
func TestIsolatedOverlay(t *testing.T) {
	s := serve(t, "")
	b := s.make(oneKey, "")
	b.stdout("mkdir d; echo old >d/a; echo there >b")
	one, two := b.overlaid(""), b.overlaid(`,"share_net":false`)
	if got := one.text("cat d/a b; echo new >d/a; rm b; echo mine >mine; export KEPT=1; cd d"); got != "old|there" {
		t.Errorf("%q", got)
	}
	if got := one.text("pwd; cat a ../mine; echo $KEPT; ls ..; id -u"); !strings.HasPrefix(got, "/work/d|new|mine|1|d|mine|") {
		t.Errorf("%q", got)
	}
	if got := b.stdout("cat d/a b; ls; id -u"); strings.Join(got[:4], "|") != "old|there|b|d" {
		t.Errorf("the sandbox's own: %q", got)
	}
	if got := two.text("cat d/a; ls"); got != "old|b|d" {
		t.Errorf("another's: %q", got)
	}
	// Its files are the session's too.
	if got := b.call("GET", "/v1/isolated/session/"+one.id+"/files/download?path=/work/mine", "").must(200).body; got != "mine\n" {
		t.Errorf("%q", got)
	}
	b.call("GET", "/files/download?path=/work/mine", "").refused(404)
	// Its network follows the sandbox's: neither has any here, and it has a loopback of its own.
	var at struct {
		Endpoint string            `json:"endpoint"`
		Headers  map[string]string `json:"headers"`
	}
	s.do("GET", "/v1/sandboxes/"+b.id+"/endpoints/18080", "", headerKey, oneKey).must(200).into(&at)
	s.do("PUT", "http://"+at.Endpoint+"/policy", `{"defaultAction":"deny"}`, headerEgress, at.Headers["OPENSANDBOX-EGRESS-AUTH"]).must(200)
	if got := one.text("echo after"); got != "after" {
		t.Errorf("%q", got)
	}
	// Paused with its sandbox, and resumed with it.
	s.do("POST", "/v1/sandboxes/"+b.id+"/pause", "", headerKey, oneKey).must(202)
	if got := one.text("echo paused"); !strings.Contains(got, "refused") {
		t.Errorf("in a paused sandbox: %q", got)
	}
	s.do("POST", "/v1/sandboxes/"+b.id+"/resume", "", headerKey, oneKey).must(202)
	if got := one.text("echo resumed"); got != "resumed" {
		t.Errorf("%q", got)
	}
	b.call("POST", "/v1/isolated/session/"+two.id+"/commit", "").refused(503)
	b.call("DELETE", "/v1/isolated/session/"+two.id, "").must(200)
	b.call("DELETE", "/v1/isolated/session/"+two.id, "").refused(404)
	s.do("DELETE", "/v1/sandboxes/"+b.id, "", headerKey, oneKey).must(204)
	if kept := s.service.Status().Sandboxes.Kept; kept != 0 {
		t.Errorf("%d sandboxes are left", kept)
	}
}

// What can't be kept is refused.
func TestIsolatedOverlayRefused(t *testing.T) {
	b := serve(t, "").make(oneKey, "")
	for name, row := range map[string]struct {
		body string
		want int
	}{
		"elsewhere": {`{"workspace":{"path":"/tmp","mode":"overlay"}}`, 400},
		"the root":  {`{"workspace":{"path":"/","mode":"overlay"}}`, 400},
		"above":     {`{"workspace":{"path":"/work/../tmp","mode":"overlay"}}`, 400},
		"kept":      {`{"overlays":[{"path":"/work","mode":"overlay","persist":true}]}`, 400},
		"two":       {`{"overlays":[{"path":"/work","mode":"overlay"},{"path":"/work/a","mode":"overlay"}]}`, 400},
		"a word":    {`{"workspace":{"path":"/work","mode":"over"}}`, 400},
	} {
		if got := b.call("POST", "/v1/isolated/session", row.body); got.status != row.want {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
	}
	b.call("POST", "/v1/isolated/session", `{"overlays":[{"path":"/work","mode":"overlay","persist":false}]}`).must(201)
}
