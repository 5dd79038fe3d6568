package faults

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// change puts the network of a sandbox.
func (d *daemon) change(t *testing.T, box, spec string) (status int, body string, err error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://sandboxd/v1/network?sandbox="+box, strings.NewReader(spec))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := d.client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	return response.StatusCode, string(data), err
}

// boxWithTraffic has a sandbox that is let out, with live connections from inside it.
func (g *ground) boxWithTraffic(t *testing.T, d *daemon) (box string, namespace *os.File, clients []*client) {
	t.Helper()
	box = d.makeSandbox(t)
	namespace = g.namespaceOf(t, d)
	if status, body, err := d.change(t, box, letOut); err != nil || status != http.StatusOK {
		t.Fatalf("let out: %d %s %v\n%s", status, body, err, d.log)
	}
	return box, namespace, traffic(t, namespace)
}

// machine is the network state that a daemon may not leave anything in: its own namespace's, and this process's.
func (g *ground) machine(t *testing.T) string {
	t.Helper()
	host, err := os.Open("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	all, _, _ := strings.Cut(networkState(t, host), "tcp: ") // others have sockets in it
	return all + "on the ground:\n" + networkState(t, g.namespace)
}

// isAgain waits until the machine's network is what it was: the kernel ends the sockets of a process a little after it.
func (g *ground) isAgain(t *testing.T, before string) {
	t.Helper()
	after := g.machine(t)
	for deadline := time.Now().Add(10 * time.Second); after != before && time.Now().Before(deadline); after = g.machine(t) {
		time.Sleep(20 * time.Millisecond) // polls what the test is about
	}
	if after != before {
		t.Errorf("the network before:\n%s\nafter:\n%s", before, after)
	}
}

// TestNetworkEnds: however a daemon ends, with connections that live, traffic stops and is seen to have been cut, nothing is left in the network of the
// machine, and the next daemon starts on what is there and lets out again.
func TestNetworkEnds(t *testing.T) {
	needRoot(t)
	t.Parallel()
	g, bin, state := newGround(t), binaries(t, ""), stateDir(t)
	before := g.machine(t)
	for name, end := range map[string]func(t *testing.T, d *daemon, box string){
		"the sandbox is deleted": func(t *testing.T, d *daemon, box string) { d.deleteSandbox(t, box) },
		"the daemon is stopped":  func(t *testing.T, d *daemon, _ string) { d.stop(t) },
		"the daemon is killed":   func(t *testing.T, d *daemon, _ string) { d.kill(t) },
		"it is let out no more": func(t *testing.T, d *daemon, box string) {
			if status, body, err := d.change(t, box, "{}"); err != nil || status != http.StatusOK {
				t.Errorf("%d %s %v", status, body, err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := g.start(t, bin, state)
			g.once(t, d) // what a daemon makes when it first lets out, it keeps
			descriptors := d.targets(t)
			box, namespace, clients := g.boxWithTraffic(t, d)
			end(t, d, box)
			g.areReset(t, clients)
			number, then := inodeOf(t, namespace), ticks(t)
			namespace.Close()
			select {
			case <-d.ended:
			default:
				if strings.HasPrefix(name, "it is") {
					d.deleteSandbox(t, box)
				}
				d.settles(t)
				d.hasDescriptors(t, descriptors, relayPipes)
				d.stop(t)
			}
			d.nothingLeft(t)
			hasEnded(t, number, then)
			d.verify(t)
			g.isAgain(t, before)
		})
	}
	d := g.start(t, bin, state)
	_, _, clients := g.boxWithTraffic(t, d)
	d.stop(t)
	g.areReset(t, clients)
	g.isAgain(t, before)
}

// once has a sandbox let out, and deletes it.
func (g *ground) once(t *testing.T, d *daemon) {
	t.Helper()
	box, namespace, clients := g.boxWithTraffic(t, d)
	d.deleteSandbox(t, box)
	g.areReset(t, clients)
	namespace.Close()
	d.settles(t)
}

// relayPipes are the ends of pipes that the relays keep for the next stream (keptPipes).
const relayPipes = 2 * 64

// targets are what the daemon's descriptors are.
func (d *daemon) targets(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, entry := range d.entries(t) {
		if target, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", d.Process.Pid, entry.Name())); err == nil {
			all = append(all, target)
		}
	}
	slices.Sort(all)
	return all
}

// hasDescriptors waits until the daemon has no more than those, and so many ends of pipes besides.
func (d *daemon) hasDescriptors(t *testing.T, before []string, pipes int) {
	t.Helper()
	more := func() bool {
		now := d.targets(t)
		isPipe := func(target string) bool { return strings.HasPrefix(target, "pipe:") }
		return len(now) > len(before)+pipes || len(slices.DeleteFunc(now, isPipe)) > len(slices.DeleteFunc(slices.Clone(before), isPipe))
	}
	for deadline := time.Now().Add(10 * time.Second); more(); time.Sleep(10 * time.Millisecond) { // it closes its ends of connections when it hears of ours
		if time.Now().After(deadline) {
			t.Errorf("descriptors before: %v\nafter: %v", before, d.targets(t))
			return
		}
	}
}

// TestDaemonDiesAtEachNetworkPoint: SIGKILL at every step of a change of a network, while another sandbox's connections live. They are reset, nothing is left, and
// a change is on record only if it is whole. A change that wasn't answered is no change: the next daemon knows nothing of it.
func TestDaemonDiesAtEachNetworkPoint(t *testing.T) {
	needRoot(t)
	t.Parallel()
	g, bin, state := newGround(t), binaries(t, "fault"), stateDir(t)
	_, networkPoints, _ := points(t)
	if len(networkPoints) < 6 {
		t.Fatalf("points %v", networkPoints)
	}
	before := g.machine(t)
	for _, point := range networkPoints {
		d := g.start(t, bin, state, "SANDBOXD_FAULT="+point)
		// The point is in the walk of a change; this exec's network is its own.
		running := make(chan reply, 1)
		go func() {
			running <- d.post(t.Context(), "/v1/exec", fmt.Sprintf(`{"command":{"argv":["sh","-c","sleep 60 # %s"]}%s}`, d.marker, asNetwork))
		}()
		d.awaitMarker(t)
		namespace := g.namespaceOf(t, d)
		clients := traffic(t, namespace)
		box := d.makeSandbox(t)
		if status, body, err := d.change(t, box, letOut); err == nil {
			t.Errorf("%s: answered %d %s, want a daemon that dies\n%s", point, status, body, d.log)
			d.kill(t)
		}
		d.awaitEnd(t)
		if status := d.ProcessState.Sys().(syscall.WaitStatus); status.Signal() != syscall.SIGKILL {
			t.Errorf("%s: the daemon ended by itself: %v\n%s", point, d.ProcessState, d.log)
		}
		if got := <-running; got.err == nil {
			t.Errorf("%s: the exec was answered: %+v", point, got)
		}
		g.areReset(t, clients)
		number, then := inodeOf(t, namespace), ticks(t)
		namespace.Close()
		d.nothingLeft(t)
		hasEnded(t, number, then)
		d.verify(t)
		if recorded := slices.Contains(lastTypes(t, state), "network"); recorded != (point == "network.recorded") {
			t.Errorf("%s: a change is on record: %v", point, recorded)
		}
		g.isAgain(t, before)
	}
	d := g.start(t, bin, state)
	_, _, clients := g.boxWithTraffic(t, d)
	d.stop(t)
	g.areReset(t, clients)
	g.isAgain(t, before)
}

// awaitMarker waits until a program runs.
func (d *daemon) awaitMarker(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) { // polls what the test is about
		if slices.ContainsFunc(d.left(), func(process string) bool { return strings.Contains(process, "sleep 60 # "+d.marker) }) {
			return
		}
	}
	t.Fatalf("nothing runs\n%s", d.log)
}
