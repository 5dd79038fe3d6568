package catalogue

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/execd/audit"
)

// pod is a daemon in a pod, which somebody else started (test/pod.sh): met through the socket that its app has, as its app.
type pod struct {
	// full: each execution has a sandbox of its own. Else all share the runner's container.
	full bool
}

// shared says that all execs are in one container.
func (p *pod) shared() bool { return p != nil && !p.full }

// withholds is why a row says nothing in a pod, or nothing.
func (p *pod) withholds(r row) string {
	switch {
	case p == nil:
		return ""
	case r.daemon != "":
		return "a daemon with another policy"
	case r.code != "":
		return "Python, which the pod's image hasn't"
	}
	if lacks, found := strings.CutPrefix(r.pod, "image: "); found {
		return lacks + ", which the pod's image hasn't"
	}
	if why, found := strings.CutPrefix(r.pod, "not offered: "); found && p.shared() {
		return why
	}
	return ""
}

// there is a row as it is in a pod.
func (p *pod) there(r row) row {
	if !p.shared() {
		return r
	}
	if outcome, found := strings.CutPrefix(r.pod, "outcome "); found {
		r.outcome, r.stderr, r.readBack = outcome, "", ""
	}
	if stderr, found := strings.CutPrefix(r.pod, "stderr "); found {
		r.stderr = stderr
	}
	return r
}

// unread says that a control isn't read where the daemon may not look into another uid's processes, or has no wish of its own: what the container's runtime
// has made.
func (p *pod) unread(control string) bool {
	first, _, _ := strings.Cut(control, ".")
	return p.shared() && slices.Contains([]string{"namespaces", "root", "exe", "fd", "cwd"}, first)
}

// alone says that a row can't have others beside it: the kernel counts the processes of a uid, and in a pod that is everybody's.
func (p *pod) alone(r row) bool { return p.shared() && strings.Contains(r.body, `"pids"`) }

// TestInPod has the table's rows done by a pod's daemon. CATALOGUE_SOCKET is the socket that its app has, as this machine sees it, CATALOGUE_LOG its audit log,
// and CATALOGUE_SHOWN the directory of the runner's image that CATALOGUE_MAKE has made.
func TestInPod(t *testing.T) {
	socket := os.Getenv("CATALOGUE_SOCKET")
	if socket == "" {
		t.Skip("CATALOGUE_SOCKET names no pod's socket; test/pod.sh does")
	}
	f := &fixture{show: os.Getenv("CATALOGUE_SHOWN"), daemons: map[string]*daemon{}, mechanisms: map[string]bool{}, pod: &pod{}}
	f.probe, f.privileged = filepath.Join(f.show, "probe"), f.show
	d := &daemon{socket: socket, log: os.Getenv("CATALOGUE_LOG"), offsets: map[string]int64{}, records: map[string][]audit.Record{}}
	f.daemons[""] = d
	// The socket's directory is closed to all but root on this machine, and open to the app in its pod.
	t.Chdir(filepath.Dir(socket))
	pid := listener(t)
	f.daemon = numberOf(t, pid)
	uid := appUID + mappedFrom(t, pid)
	d.client.Transport = &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return dialAs(uid, filepath.Base(socket)) }}
	status := d.status(t)
	f.tier = string(status.Host.Tier)
	if f.pod.full = f.tier == "full"; f.pod.full {
		f.daemon = pid // a number that nobody has in a sandbox of its own
	}
	for _, m := range status.Host.Mechanisms {
		f.mechanisms[m.Name] = m.Have
	}
	f.bystander(t)
	if f.pod.full {
		f.family(t)
	} else {
		f.settle(t)
	}
	for _, alone := range []bool{true, false} {
		t.Run("rows", func(t *testing.T) {
			for _, r := range rows() {
				if f.pod.alone(r) != alone {
					continue
				}
				t.Run(r.name(), func(t *testing.T) {
					if !alone {
						t.Parallel()
					}
					f.hold(t, f.pod.there(r))
				})
			}
		})
	}
}

// podSocket is what the chart calls the socket in the pod.
const podSocket = "/run/sandboxd/api/socket/sandboxd.sock"

// appUID is whom the chart gives the app.
const appUID = 65534

// dialAs connects with an effective uid, which is what the kernel tells the other end. Only this thread has it, and only meanwhile.
func dialAs(uid int, path string) (net.Conn, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	become := func(uid int) error {
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), uintptr(uid), ^uintptr(0)); errno != 0 {
			return fmt.Errorf("setresuid %d: %w", uid, errno)
		}
		return nil
	}
	if err := become(uid); err != nil {
		return nil, err
	}
	conn, err := net.Dial("unix", path)
	if back := become(0); back != nil {
		panic(back) // what runs on this thread next would be somebody else
	}
	return conn, err
}

// listener is the daemon's process, by the kernel's word on who listens.
func listener(t *testing.T) int {
	t.Helper()
	conn, err := net.Dial("unix", filepath.Base(os.Getenv("CATALOGUE_SOCKET")))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var peer *unix.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) { peer, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err := errors.Join(err, failed); err != nil || peer.Pid == 0 {
		t.Fatalf("who listens: %+v, %v", peer, err)
	}
	return int(peer.Pid)
}

// mappedFrom is which uid of this machine is 0 in a process's user namespace.
func mappedFrom(t *testing.T, pid int) (outside int) {
	t.Helper()
	var inside, length int
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/uid_map", pid))
	if err == nil {
		_, err = fmt.Sscan(string(data), &inside, &outside, &length)
	}
	if err != nil || inside != 0 || length <= appUID {
		t.Fatalf("uid_map %q: %v", data, err)
	}
	return outside
}

// numberOf is a process's number in its own PID namespace.
func numberOf(t *testing.T, pid int) (number int) {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if numbers, found := strings.CutPrefix(line, "NSpid:"); found {
			fields := strings.Fields(numbers)
			if _, err := fmt.Sscan(fields[len(fields)-1], &number); err != nil {
				t.Fatal(err)
			}
		}
	}
	return number
}
