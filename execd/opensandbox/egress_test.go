package opensandbox

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/test/kerneltest"
)

// policyOf reads a sandbox's policy by its egress API.
func policyOf(b box) answer {
	b.s.t.Helper()
	var at struct {
		Endpoint string            `json:"endpoint"`
		Headers  map[string]string `json:"headers"`
	}
	b.s.do("GET", "/v1/sandboxes/"+b.id+"/endpoints/18080", "", headerKey, b.key).must(200).into(&at)
	return b.s.do("GET", "http://"+at.Endpoint+"/policy", "", headerEgress, at.Headers["OPENSANDBOX-EGRESS-AUTH"])
}

// TestEgressErrors: a no has code and message at the egress API too. Clients that take it for text show both.
func TestEgressErrors(t *testing.T) {
	s := serve(t, "")
	b := s.make(oneKey, `,"networkPolicy":{"defaultAction":"deny"}`)
	var at struct {
		Endpoint string            `json:"endpoint"`
		Headers  map[string]string `json:"headers"`
	}
	s.do("GET", "/v1/sandboxes/"+b.id+"/endpoints/18080", "", headerKey, oneKey).must(200).into(&at)
	for body, status := range map[string]int{`[{"action":"allow","target":"10.0.0.1"}]`: 403, `[{"action":"allow","target":""}]`: 400, `{}`: 400} {
		a := s.do("PATCH", "http://"+at.Endpoint+"/policy", body, headerEgress, at.Headers["OPENSANDBOX-EGRESS-AUTH"])
		if a.refused(status); a.header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %s", body, a.header.Get("Content-Type"))
		}
	}
}

// TestPolicy: what is told is what was written, and only what policy lets be.
func TestPolicy(t *testing.T) {
	s := serve(t, "")
	const targets = `[{"action":"allow","target":"data.example.org"},{"action":"deny","target":"*.Example.COM"},{"action":"allow","target":"45.9.1.7"}]`
	b := s.make(oneKey, `,"networkPolicy":{"defaultAction":"deny","egress":`+targets+`}`)
	if got := policyOf(b).must(200).body; !strings.Contains(got, `"egress":`+targets) || !strings.Contains(got, `"enforcementMode":"dns+nft"`) || !strings.Contains(got, `"mode":"enforcing"`) {
		t.Errorf("%s", got)
	}
	path := "/v1/sandboxes/" + b.id + "/networkpolicy"
	var status policyStatus
	// What is new comes first, since the first match counts: behind what is there it might change nothing. Of two for one target the first is taken.
	s.do("PATCH", path, `[{"action":"allow","target":"b.example"},{"action":"deny","target":"45.9.1.7"},{"action":"deny","target":"b.example"}]`, headerKey, oneKey).must(200).into(&status)
	want := []networkRule{{"allow", "b.example"}, {"deny", "45.9.1.7"}, {"allow", "data.example.org"}, {"deny", "*.Example.COM"}}
	if !slices.Equal(status.Policy.Egress, want) {
		t.Errorf("%+v, want %+v", status, want)
	}
	s.do("PATCH", path, `[{"action":"allow","target":"10.0.0.1"}]`, headerKey, oneKey).refused(403)
	s.do("PATCH", path, `[{"action":"permit","target":"x.example"}]`, headerKey, oneKey).refused(400)
	s.do("DELETE", path, `["b.example","unknown.example"]`, headerKey, oneKey).must(200).into(&status)
	if len(status.Policy.Egress) != 3 || slices.ContainsFunc(status.Policy.Egress, func(r networkRule) bool { return r.Target == "b.example" }) {
		t.Errorf("%+v", status)
	}
	s.do("PUT", path, `{}`, headerKey, oneKey).must(200).into(&status)
	if status.Mode != "deny_all" || len(status.Policy.Egress) != 0 {
		t.Errorf("%+v", status)
	}
	open := policyOf(s.make(oneKey, "")).must(200).body
	if !strings.Contains(open, `"mode":"allow_all"`) || !strings.Contains(open, `"defaultAction":"allow"`) {
		t.Errorf("%s", open)
	}
}

// TestEnforcementIsProven: a fence that somebody takes down is put up again once; the second time nobody is told that anything is enforced.
func TestEnforcementIsProven(t *testing.T) {
	s := serve(t, "")
	b := s.make(oneKey, `,"networkPolicy":{"defaultAction":"deny","egress":[{"action":"allow","target":"45.9.1.7"}]}`)
	policyOf(b).must(200)
	launcher := launcherOf(t, b)
	flush(t, launcher)
	for deadline := time.Now().Add(30 * time.Second); !strings.Contains(s.logged(), "repaired") && policyOf(b).status != 200; time.Sleep(20 * time.Millisecond) { // polls until it is repaired
		if time.Now().After(deadline) {
			t.Fatal("the fence isn't repaired")
		}
	}
	flush(t, launcher)
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) { // the second change is found by who watches, or by this look
		a := s.do("GET", "/v1/sandboxes/"+b.id+"/networkpolicy", "", headerKey, oneKey)
		if a.status != 200 {
			if strings.Contains(a.body, enforcementMode) {
				t.Errorf("%d %s", a.status, a.body)
			}
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s", a.body)
		}
	}
}

// logged is the daemon's log so far.
func (s *server) logged() string {
	return s.log.String()
}

// launcherOf is the process of ours that has a sandbox's network.
func launcherOf(t *testing.T, b box) int {
	t.Helper()
	network := strings.Join(b.stdout("readlink /proc/self/ns/net"), "")
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		data, err := os.ReadFile("/proc/self/task/" + task.Name() + "/children")
		if err != nil {
			continue // the thread has ended
		}
		for _, child := range strings.Fields(string(data)) {
			if has, err := os.Readlink("/proc/" + child + "/ns/net"); err == nil && has == network {
				pid, err := strconv.Atoi(child)
				if err != nil {
					t.Fatal(err)
				}
				return pid
			}
		}
	}
	t.Fatalf("no child has the network %q", network)
	return 0
}

// flush takes the rules of a sandbox's network away.
func flush(t *testing.T, launcher int) {
	t.Helper()
	done := make(chan error)
	var enter func()
	enter = func() {
		runtime.LockOSThread() // and never unlocked
		if unix.Gettid() == unix.Getpid() {
			defer runtime.UnlockOSThread() // the main thread can't end: another is taken while this one is held
			again := make(chan struct{})
			go func() { defer close(again); enter() }()
			<-again
			return
		}
		file, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", launcher))
		if err == nil {
			err = errors.Join(unix.Setns(int(file.Fd()), unix.CLONE_NEWNET), file.Close())
		}
		if err == nil {
			err = kerneltest.FlushRules()
		}
		done <- err
	}
	go enter()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
