package runner

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/enforcer"
	"github.com/sandboxd/sandboxd/enforcer/mount"
	"github.com/sandboxd/sandboxd/policy"
)

// The main thread is kept for the main goroutine: a thread that has entered another namespace ends with its goroutine, and the main one can't end.
func init() { runtime.LockOSThread() }

// inside does something with the privilege of this process in namespaces of a sandbox, on a thread that ends with it.
func inside(t *testing.T, s *Sandbox, do func() error, namespaces ...string) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread must not be used for anything else
		if unix.Gettid() == unix.Getpid() {
			// The main thread can't end, and what it is shows in /proc/self: with it taken, the next one is another.
			defer runtime.UnlockOSThread()
			inside(t, s, do, namespaces...)
			done <- nil
			return
		}
		err := unix.Unshare(unix.CLONE_FS)
		for _, name := range namespaces {
			var file *os.File
			if err == nil {
				file, err = os.Open(fmt.Sprintf("/proc/%d/ns/%s", s.PID(), name))
			}
			if err == nil {
				err = unix.Setns(int(file.Fd()), 0)
				file.Close()
			}
		}
		if err == nil {
			err = do()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// TestSandboxDriftIsNoticed changes a running sandbox from outside, one thing at a time, and reads it back: the row of that thing fails.
func TestSandboxDriftIsNoticed(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("an ordinary user can't enter the namespaces to change them")
	}
	config := testConfig(t)
	drifts := []struct {
		control, what string
		do            func() error
		namespace     string
	}{
		{"mount /usr", "covered", func() error { return unix.Mount("evil", "/usr", "tmpfs", 0, "") }, "mnt"},
		{"mount /tmp/x", "one more", func() error {
			if err := os.Mkdir("/tmp/x", 0o700); err != nil {
				return err
			}
			return unix.Mount("evil", "/tmp/x", "tmpfs", 0, "")
		}, "mnt"},
		{"mount /", "shared", func() error { return unix.Mount("", "/", "", unix.MS_SHARED, "") }, "mnt"},
		{"mount /tmp", "bigger", func() error { return unix.Mount("", "/tmp", "", unix.MS_REMOUNT, "size=1g,mode=1777") }, "mnt"},
		{"mount /proc", "hidepid off", func() error {
			return unix.Mount("", "/proc", "", unix.MS_REMOUNT|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "hidepid=0")
		}, "mnt"},
		{"owner /work", "another's", func() error { return os.Chown("/work", 12345, 12345) }, "mnt"},
		{"owner /tmp", "not sticky", func() error { return os.Chmod("/tmp", 0o777) }, "mnt"},
		{"sandbox.hostname", "renamed", func() error { return unix.Sethostname([]byte("evil")) }, "uts"},
		{"network.links", "one more", func() error {
			return addDummy("out0")
		}, "net"},
	}
	for _, m := range config.Plan.Root.Mounts {
		if m.Target != "/" {
			drifts = append(drifts, struct {
				control, what string
				do            func() error
				namespace     string
			}{"mount " + m.Target, "gone", func() error { return unix.Unmount(m.Target, unix.MNT_DETACH) }, "mnt"})
		}
		for _, option := range m.Options {
			clear := map[string]uint64{"ro": unix.MOUNT_ATTR_RDONLY, "nosuid": unix.MOUNT_ATTR_NOSUID, "nodev": unix.MOUNT_ATTR_NODEV,
				"noexec": unix.MOUNT_ATTR_NOEXEC}[option]
			drifts = append(drifts, struct {
				control, what string
				do            func() error
				namespace     string
			}{"mount " + m.Target, "without " + option, func() error {
				return unix.MountSetattr(unix.AT_FDCWD, m.Target, 0, &unix.MountAttr{Attr_clr: clear})
			}, "mnt"})
		}
	}
	for _, drift := range drifts {
		s := startSandbox(t, config)
		inside(t, s, drift.do, drift.namespace)
		verdict, err := s.Verify()
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(verdict.Failed(), func(r policy.Row) bool { return r.Control == drift.control }) {
			t.Errorf("%s %s: not among the failed rows %v", drift.control, drift.what, verdict.Failed())
		}
		closeSandbox(t, s)
	}
}

// addDummy makes a network device by rtnetlink: a header, an ifinfomsg, its name, and its kind.
func addDummy(name string) error {
	socket, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer unix.Close(socket)
	attribute := func(kind uint16, value []byte) []byte {
		b := order.AppendUint16(nil, uint16(4+len(value)))
		b = append(order.AppendUint16(b, kind), value...)
		return append(b, make([]byte, (4-len(b)%4)%4)...)
	}
	body := make([]byte, unix.SizeofIfInfomsg)
	body = append(body, attribute(unix.IFLA_IFNAME, append([]byte(name), 0))...)
	body = append(body, attribute(unix.IFLA_LINKINFO, attribute(unix.IFLA_INFO_KIND, []byte("veth")))...)
	message := order.AppendUint32(nil, uint32(unix.SizeofNlMsghdr+len(body)))
	message = order.AppendUint16(message, unix.RTM_NEWLINK)
	message = order.AppendUint16(message, unix.NLM_F_REQUEST|unix.NLM_F_ACK|unix.NLM_F_CREATE|unix.NLM_F_EXCL)
	message = append(message, make([]byte, 8)...)
	if err := unix.Sendto(socket, append(message, body...), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	answer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(socket, answer, 0)
	if err != nil || n < unix.SizeofNlMsghdr+4 {
		return fmt.Errorf("netlink: %d bytes, %w", n, err)
	}
	if errno := int32(order.Uint32(answer[unix.SizeofNlMsghdr:])); errno != 0 {
		return unix.Errno(-errno)
	}
	return nil
}

// TestSandboxShownDirectory: a configured directory is there, read-only, by its own name and by a link's; what lies beside it isn't.
func TestSandboxShownDirectory(t *testing.T) {
	dir, err := os.MkdirTemp("/var/tmp", "sandboxd-shown")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	shown, beside, link := dir+"/shown", dir+"/beside", dir+"/link"
	if err := errors.Join(os.Chmod(dir, 0o755), os.Mkdir(shown, 0o755), os.Mkdir(beside, 0o755), os.WriteFile(shown+"/file", nil, 0o666), os.Chmod(shown+"/file", 0o666),
		os.Symlink("shown", link)); err != nil {
		t.Fatal(err)
	}
	config := testConfig(t)
	if config.Host.Sources, err = mount.Sources([]string{link}); err != nil {
		t.Fatal(err)
	}
	spec := testSpec()
	spec.Show = []string{link}
	if config.Plan, err = enforcer.BuildSandbox(config.Host, spec); err != nil {
		t.Fatal(err)
	}
	s := startSandbox(t, config)
	got := act(t, s, "open "+link+"/file", "open "+shown+"/file", "write "+link+"/file", "create "+shown+"/more", "open "+beside, "create "+dir+"/more")
	want := answers{"open " + link + "/file": "ok", "open " + shown + "/file": "ok", "write " + link + "/file": "EROFS", "create " + shown + "/more": "EROFS",
		"open " + beside: "ENOENT", "create " + dir + "/more": "EROFS"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
