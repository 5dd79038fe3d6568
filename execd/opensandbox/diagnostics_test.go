package opensandbox

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestDiagnostics: a sandbox is told as it is, with what the kernel says of it now; what happened to it; and what its entrypoint has written.
func TestDiagnostics(t *testing.T) {
	s := serve(t, "")
	b := s.make(oneKey, `,"networkPolicy":{"defaultAction":"deny"}`)
	path := "/v1/sandboxes/" + b.id
	s.do("PATCH", path+"/networkpolicy", `[{"action":"allow","target":"a.example.net"}]`, headerKey, oneKey).must(200)
	s.do("PATCH", path+"/networkpolicy", `[{"action":"allow","target":"10.0.0.1"}]`, headerKey, oneKey).refused(403)
	b.run(`{"command":"true","envs":{"LD_PRELOAD":"x"}}`)
	background := b.run(`{"command":"sleep 600","background":true}`)[0].Text

	var events wireDiagnostics
	s.do("GET", path+"/diagnostics/events?scope=runtime", "", headerKey, oneKey).must(200).into(&events)
	if events.Kind != "events" || events.Scope != "runtime" || events.Delivery != "inline" {
		t.Errorf("%+v", events)
	}
	happened := regexp.MustCompile(`(?m)^\S+Z `).ReplaceAllString(events.Content, "")
	for i, want := range []string{
		"created from image host: held, ", "expires ", "network changed: default deny, allow a.example.net", "network refused: network.", "command ",
	} {
		if lines := strings.Split(happened, "\n"); len(lines) <= i || !strings.HasPrefix(lines[i], want) {
			t.Errorf("event %d isn't %q:\n%s", i, want, happened)
		}
	}
	if !regexp.MustCompile(`command [0-9a-f]{32} refused: .*LD_PRELOAD`).MatchString(happened) {
		t.Errorf("no refused command:\n%s", happened)
	}
	if text := s.do("GET", path+"/diagnostics/events?limit=1", "", headerKey, oneKey).must(200).body; strings.Count(text, "\n") != 1 || !strings.Contains(text, "refused") {
		t.Errorf("the last event is %q", text)
	}

	inspected := s.do("GET", path+"/diagnostics/inspect", "", headerKey, oneKey).must(200)
	for _, want := range []string{"id: " + b.id + "\n", "state: Running\n", "network: default deny, allow a.example.net\n", "\nheld: true, ", "\nsandbox\n", "\nprogram ", "\nforbidden acts\n"} {
		if !strings.Contains(inspected.body, want) {
			t.Errorf("inspect has no %q", want)
		}
	}
	if kind := inspected.header.Get("Content-Type"); !strings.HasPrefix(kind, "text/plain") || strings.Contains(inspected.body, "BROKEN") {
		t.Errorf("%s: %s", kind, inspected.body)
	}
	b.call("DELETE", "/command?id="+background, "").must(200)

	for path, status := range map[string]int{
		"/diagnostics/logs?scope=node": 400, "/diagnostics/events?scope=container": 400, "/diagnostics/logs?tail=0": 400, "/diagnostics/network": 501,
	} {
		s.do("GET", "/v1/sandboxes/"+b.id+path, "", headerKey, oneKey).refused(status)
	}
	s.do("GET", path+"/diagnostics/inspect", "", headerKey, twoKey).refused(404)
}

// TestInspectTellsOfDrift: a fence that is gone is told as broken.
func TestInspectTellsOfDrift(t *testing.T) {
	s := serve(t, "")
	b := s.make(oneKey, `,"networkPolicy":{"defaultAction":"deny"}`)
	launcher := launcherOf(t, b)
	for deadline := time.Now().Add(30 * time.Second); ; { // the first time it is repaired
		flush(t, launcher)
		a := s.do("GET", "/v1/sandboxes/"+b.id+"/diagnostics/inspect", "", headerKey, oneKey).must(200)
		if strings.Contains(a.body, "held: false") || !strings.Contains(a.body, "state: Running") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("nothing is told:\n%s", a.body)
		}
	}
}

// TestEntrypointLog: the end of what an entrypoint has written is told, as much of it as is asked for.
func TestEntrypointLog(t *testing.T) {
	s := serve(t, "")
	var made struct {
		ID string `json:"id"`
	}
	s.do("POST", "/v1/sandboxes", `{"image":{"uri":"host"},"entrypoint":["sh","-c","seq 1 500; echo warned; sleep 600"]}`, headerKey, oneKey).must(202).into(&made)
	path := "/v1/sandboxes/" + made.ID + "/diagnostics/"
	var logs wireDiagnostics
	for deadline := time.Now().Add(30 * time.Second); !strings.Contains(logs.Content, "warned\n"); time.Sleep(10 * time.Millisecond) { // polls until it has written it
		s.do("GET", path+"logs?scope=container&tail=1000", "", headerKey, oneKey).must(200).into(&logs)
		if time.Now().After(deadline) {
			t.Fatalf("%+v", logs)
		}
	}
	if !strings.HasPrefix(logs.Content, "1\n") || logs.Truncated || strings.Count(logs.Content, "\n") != 501 {
		t.Errorf("%v, %d lines", logs.Truncated, strings.Count(logs.Content, "\n"))
	}
	if text := s.do("GET", path+"logs?tail=2", "", headerKey, oneKey).must(200).body; text != "500\nwarned\n" {
		t.Errorf("the last two lines are %q", text)
	}
	s.do("GET", path+"logs?scope=all&tail=2", "", headerKey, oneKey).must(200).into(&logs)
	if logs.Content != "500\nwarned\n" || !logs.Truncated {
		t.Errorf("%+v", logs)
	}
	if text := s.do("GET", path+"summary?tail=1&event_limit=1", "", headerKey, oneKey).must(200).body; !strings.HasSuffix(text, "\nentrypoint\nwarned\n") || !strings.Contains(text, "\nheld: true, ") {
		t.Errorf("the summary ends in %q", text[max(0, len(text)-200):])
	}
}

// TestEventsAreBounded: the newest are kept, each in a line of its own that isn't too long, and that there were more is known.
func TestEventsAreBounded(t *testing.T) {
	var e events
	if text, more := e.text(10); text != "" || more {
		t.Errorf("%q %t", text, more)
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for i := range mostEvents + 7 {
		e.add(at, "number %d\nof\tmany %s", i, strings.Repeat("ä", longestLine))
	}
	text, more := e.text(mostEvents + 7)
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if !more || len(lines) != mostEvents || !strings.HasPrefix(lines[0], "2026-01-02T03:04:05Z number 7 of many ää") {
		t.Errorf("%t, %d lines, %.60q", more, len(lines), lines[0])
	}
	if n := len(lines[0]); n > longestLine+40 || !strings.HasSuffix(lines[0], "ä…") {
		t.Errorf("%d bytes, %q", n, lines[0][n-10:])
	}
	if text, more := e.text(1); !more || !strings.Contains(text, fmt.Sprintf("number %d ", mostEvents+6)) || strings.Count(text, "\n") != 1 {
		t.Errorf("%t %.80q", more, text)
	}
}

// TestMetadataFilters: the Python SDK encodes a filter twice, the JavaScript SDK once.
func TestMetadataFilters(t *testing.T) {
	metadata := map[string]string{"in group": "a=b +%41;", "n": "1"}
	for filter, want := range map[string]bool{
		"":                                    true,
		"in+group=a%3Db+%2B%2541%3B&n=1":      true, // twice
		"in%20group=a%3Db%20%2B%2541%3B":      true,
		"in group=a=b +%41;":                  true, // once
		"in group=a=b +%41;&n=1":              true,
		"in group=a=b +%41;&n=2":              false,
		"n=1&other=":                          false,
		"in+group=a%3Db+%2B%2541%3B&n=1&n=2":  false,
		"in group=a%3Db+%2B%2541%3B&n=100%zz": false,
	} {
		if got := hasAll(metadata, readings(filter)...); got != want {
			t.Errorf("%q: %t", filter, got)
		}
	}
}
