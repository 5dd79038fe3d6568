package seccomp

import (
	"encoding/json/v2"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// The tests below put filters on a throw-away child: this binary again, which TestMain sends here.
const childVariable = "SECCOMP_TEST_CHILD"

// childJob is what the child is told on its standard input.
type childJob struct {
	Program Program `json:"program"`
	// Calls are made in order; their errnos (or the signal that ends the child) are the answer.
	Calls []Probe `json:"calls"`
	// Act is "" or one of the ways into the kernel that have no number: "int80".
	Act string `json:"act"`
}

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		if err := child(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func child() error {
	var job childJob
	if err := json.UnmarshalRead(os.Stdin, &job); err != nil {
		return err
	}
	if err := installEverywhere(job.Program); err != nil {
		return err
	}
	errnos := []int{}
	for _, c := range job.Calls {
		_, _, e := syscall.RawSyscall6(c.Nr, uintptr(c.Args[0]), uintptr(c.Args[1]), uintptr(c.Args[2]), uintptr(c.Args[3]), uintptr(c.Args[4]), uintptr(c.Args[5]))
		errnos = append(errnos, int(e))
	}
	if job.Act != "" {
		enterAs(job.Act)
	}
	return json.MarshalWrite(os.Stdout, errnos)
}

// installEverywhere puts a filter on all threads (SECCOMP_FILTER_FLAG_TSYNC).
func installEverywhere(p Program) error {
	return install(p, 1)
}

func install(p Program, flags uintptr) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	rows := p.Bytes()
	program := sockFprog{uint16(len(p)), unsafe.Pointer(&rows[0])}
	number, _ := Number(runtime.GOARCH, "seccomp")
	if _, _, e := syscall.RawSyscall6(syscall.SYS_PRCTL, 38, 1, 0, 0, 0, 0); e != 0 {
		return fmt.Errorf("PR_SET_NO_NEW_PRIVS: %w", e)
	}
	if _, _, e := syscall.RawSyscall(uintptr(number), 1, flags, uintptr(unsafe.Pointer(&program))); e != 0 {
		return fmt.Errorf("SECCOMP_SET_MODE_FILTER: %w", e)
	}
	return nil
}

// runChild answers with the errnos of the calls, or with the signal that ended the child.
func runChild(t *testing.T, job childJob) (errnos []int, signal syscall.Signal) {
	t.Helper()
	data, err := json.Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), "/proc/self/exe")
	c.Env = []string{childVariable + "=1", "GOTRACEBACK=none"}
	c.Stdin = strings.NewReader(string(data))
	var errs strings.Builder
	c.Stderr = &errs
	out, err := c.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if status := exit.Sys().(syscall.WaitStatus); status.Signaled() {
			return nil, status.Signal()
		}
	}
	if err != nil {
		t.Fatalf("child: %v\n%s", err, errs.String())
	}
	if err := json.Unmarshal(out, &errnos); err != nil {
		t.Fatal(err)
	}
	return errnos, 0
}

func nativeFilter(t testing.TB) Filter {
	t.Helper()
	var u syscall.Utsname
	if err := syscall.Uname(&u); err != nil {
		t.Fatal(err)
	}
	release := ""
	for _, c := range u.Release {
		if c != 0 {
			release += string(rune(c))
		}
	}
	p, err := RuntimeDefault(runtime.GOARCH, release)
	if err != nil {
		t.Fatal(err)
	}
	f, err := NewFilter("RuntimeDefault", p, runtime.GOARCH)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestKernelAgrees makes calls under the filter in the real kernel: each gets the errno that the simulator says. A Go program runs under it at all.
func TestKernelAgrees(t *testing.T) {
	f := nativeFilter(t)
	n := func(name string) uintptr { return uintptr(number(t, runtime.GOARCH, name)) }
	refused := append(slices.Clone(f.Probes), []Probe{
		{Name: "raw socket", Nr: n("socket"), Args: [6]uint64{2, 3, 1}, Errno: int(syscall.EPERM)},
		{Name: "sctp", Nr: n("socket"), Args: [6]uint64{2, 1, 132}, Errno: int(syscall.EPROTONOSUPPORT)},
		{Name: "mount", Nr: n("mount"), Errno: int(syscall.EPERM)},
		{Name: "bpf", Nr: n("bpf"), Args: [6]uint64{minusOne}, Errno: int(syscall.EPERM)},
		{Name: "perf_event_open", Nr: n("perf_event_open"), Errno: int(syscall.EPERM)},
		{Name: "userfaultfd", Nr: n("userfaultfd"), Args: [6]uint64{minusOne}, Errno: int(syscall.EPERM)},
		{Name: "open_by_handle_at", Nr: n("open_by_handle_at"), Errno: int(syscall.EPERM)},
		{Name: "process_vm_writev", Nr: n("process_vm_writev"), Errno: int(syscall.EPERM)},
		{Name: "personality", Nr: n("personality"), Args: [6]uint64{0x40000}, Errno: int(syscall.EPERM)},
		{Name: "number 472", Nr: 472, Errno: int(syscall.ENOSYS)},
		{Name: "number -1", Nr: 1<<32 - 1, Errno: int(syscall.ENOSYS)},
	}...)
	allowed := []Probe{
		{Name: "getpid", Nr: n("getpid")},
		{Name: "personality query", Nr: n("personality"), Args: [6]uint64{0xffffffff}},
		{Name: "tcp socket", Nr: n("socket"), Args: [6]uint64{2, 1 | 0x80000, 6}},
		{Name: "unix socket", Nr: n("socket"), Args: [6]uint64{1, 1 | 0x80000}},
		{Name: "route netlink socket", Nr: n("socket"), Args: [6]uint64{16, 3 | 0x80000}},
		{Name: "bad descriptor", Nr: n("close"), Args: [6]uint64{minusOne}, Errno: int(syscall.EBADF)},
		{Name: "other ioctl", Nr: n("ioctl"), Args: [6]uint64{minusOne, 0x5413}, Errno: int(syscall.EBADF)},
	}
	all := append(slices.Clone(refused), allowed...)
	errnos, signal := runChild(t, childJob{Program: f.Program, Calls: all})
	if signal != 0 {
		t.Fatalf("killed by %v", signal)
	}
	for i, c := range all {
		if errnos[i] != c.Errno {
			t.Errorf("%s: errno %d, want %d", c.Name, errnos[i], c.Errno)
		}
		answer := Action(f.Program.Run(AuditArch(runtime.GOARCH), uint64(c.Nr), c.Args))
		if e, refuses := answer.Errno(); refuses != (i < len(refused)) || refuses && int(e) != errnos[i] {
			t.Errorf("%s: the simulator says %v, the kernel %d", c.Name, answer, errnos[i])
		}
	}
	// The same calls without the filter: what proves the filter must get another answer there.
	free, _ := runChild(t, childJob{Program: Program{ret}, Calls: f.Probes})
	proofs := 0
	for i, p := range f.Probes {
		if free[i] != p.Errno {
			proofs++
		} else {
			t.Logf("probe %s: errno %d without the filter too (on this kernel, by this user)", p.Name, free[i])
		}
	}
	if proofs < len(f.Probes)-3 {
		t.Errorf("only %d of %d probes tell a filter from none", proofs, len(f.Probes))
	}
}

// TestForeignEntriesAreKilled: x32 numbers and the i386 gate end the process with SIGSYS.
func TestForeignEntriesAreKilled(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("there is no second entry on " + runtime.GOARCH)
	}
	f := nativeFilter(t)
	if _, signal := runChild(t, childJob{Program: f.Program, Calls: []Probe{{Nr: 1<<30 | 39}}}); signal != syscall.SIGSYS {
		t.Errorf("x32 getpid: signal %v, want SIGSYS", signal)
	}
	if _, signal := runChild(t, childJob{Program: Program{ret}, Act: "int80"}); signal != 0 {
		t.Skipf("int 0x80 without a filter ends with %v: this kernel has no i386 entry", signal)
	}
	if _, signal := runChild(t, childJob{Program: f.Program, Act: "int80"}); signal != syscall.SIGSYS {
		t.Errorf("i386 getpid: signal %v, want SIGSYS", signal)
	}
}

// enterAs makes getpid through an entry that Go doesn't use: the code is written into a page and called.
func enterAs(string) {
	code := []byte{0xb8, 20, 0, 0, 0, 0xcd, 0x80, 0xc3} // mov eax, 20 (i386 getpid); int 0x80; ret
	page, err := syscall.Mmap(-1, 0, 4096, syscall.PROT_READ|syscall.PROT_WRITE|syscall.PROT_EXEC, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mmap:", err)
		os.Exit(2)
	}
	copy(page, code)
	entry := unsafe.Pointer(&page[0])
	closure := unsafe.Pointer(&entry)
	(*(*func())(unsafe.Pointer(&closure)))()
}

// requireReadback skips where the kernel lets nobody like us read filters back, and fails where it ought to.
func requireReadback(t testing.TB) {
	t.Helper()
	err := ReadbackWorks()
	switch {
	case err == nil:
	case os.Geteuid() != 0:
		t.Skipf("reading filters back needs root: %v", err)
	case !initialAndFree():
		t.Skipf("reading filters back needs all capabilities in the initial user namespace and no filter of our own: %v", err)
	default:
		t.Fatalf("root without a filter: %v", err)
	}
}

func initialAndFree() bool {
	status, _ := os.ReadFile("/proc/self/status")
	uids, _ := os.ReadFile("/proc/self/uid_map")
	return strings.Contains(string(status), "\nSeccomp:\t0\n") && strings.Contains(string(status), "\nCapEff:\t000001ffffffffff\n") &&
		slices.Equal(strings.Fields(string(uids)), []string{"0", "0", "4294967295"})
}

// filtered is a child that has the filter and waits in read, as one at its gate.
func filtered(t testing.TB, p Program) int {
	t.Helper()
	pid, release, err := forkFiltered(p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	return pid
}

func TestReadback(t *testing.T) {
	requireReadback(t)
	f := nativeFilter(t)
	pid := filtered(t, f.Program)
	for range 50 {
		got, err := Readback(pid, 0)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != string(f.Program.Bytes()) {
			t.Fatalf("other bytes than installed: %x", got)
		}
	}
	if _, err := Readback(pid, 1); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("second filter: %v, want ENOENT", err)
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(status), "\nState:\tS (sleeping)\n") && strings.Contains(string(status), "\nTracerPid:\t0\n") {
			break // back in its read
		}
		if time.Now().After(deadline) {
			t.Fatalf("left as it should not be:\n%s", status)
		}
	}
	for _, bad := range [][2]int{{0, 0}, {1, 0}, {-1, 0}, {pid, -1}} {
		if _, err := Readback(bad[0], bad[1]); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("Readback%v: %v, want EINVAL", bad, err)
		}
	}
}

func TestReadbackWithoutFilter(t *testing.T) {
	requireReadback(t)
	c := exec.CommandContext(t.Context(), "/proc/self/exe")
	c.Env = []string{childVariable + "=1"}
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if got, err := Readback(c.Process.Pid, 0); err == nil {
		t.Errorf("a process without a filter: %d bytes", len(got))
	}
	_, _ = io.WriteString(in, "{}")
	_ = in.Close()
	if err := c.Wait(); err == nil {
		t.Error("the child installed an empty program")
	}
}

// TestReadbackOfTheDying: whenever the process is killed, Readback answers with bytes or ESRCH, at once, and leaves nothing behind.
func TestReadbackOfTheDying(t *testing.T) {
	requireReadback(t)
	f := nativeFilter(t)
	for i := range 100 {
		pid, release, err := forkFiltered(f.Program)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			time.Sleep(time.Duration(i) * 2 * time.Microsecond)
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}()
		started := time.Now()
		got, err := Readback(pid, 0)
		if time.Since(started) > readbackBound {
			t.Errorf("took %v", time.Since(started))
		}
		if err == nil && string(got) != string(f.Program.Bytes()) || err != nil && !errors.Is(err, syscall.ESRCH) {
			t.Errorf("killed after %d µs: %d bytes, %v", i*2, len(got), err)
		}
		release()
	}
	pid, release, err := forkFiltered(f.Program)
	if err != nil {
		t.Fatal(err)
	}
	release()
	if _, err := Readback(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("reaped: %v, want ESRCH", err)
	}
}

// TestReadbackOfTheStopped: a process in a job-control stop can be read and stays stopped; a pending signal isn't swallowed.
func TestReadbackOfTheStopped(t *testing.T) {
	requireReadback(t)
	f := nativeFilter(t)
	pid := filtered(t, f.Program)
	_ = syscall.Kill(pid, syscall.SIGSTOP)
	waitState(t, pid, "T (stopped)")
	if got, err := Readback(pid, 0); err != nil || string(got) != string(f.Program.Bytes()) {
		t.Errorf("stopped: %d bytes, %v", len(got), err)
	}
	waitState(t, pid, "T (stopped)")
	_ = syscall.Kill(pid, syscall.SIGCONT)
	waitState(t, pid, "S (sleeping)")
}

func waitState(t *testing.T, pid int, want string) {
	t.Helper()
	var status []byte
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		status, _ = os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if strings.Contains(string(status), "\nState:\t"+want+"\n") && strings.Contains(string(status), "\nTracerPid:\t0\n") {
			return
		}
	}
	t.Fatalf("never %q:\n%s", want, status)
}

// TestReadbackOfManyAtOnce: tracers are threads, so reads of different processes don't wait for each other, also from the main goroutine's.
func TestReadbackOfManyAtOnce(t *testing.T) {
	requireReadback(t)
	f := nativeFilter(t)
	done := make(chan error)
	const children = 8
	for range children {
		pid := filtered(t, f.Program)
		go func() {
			var err error
			for range 50 {
				if _, e := Readback(pid, 0); e != nil {
					err = e
				}
			}
			done <- err
		}()
	}
	for range children {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// TestReadbackOfTheTraced: somebody else traces it already.
func TestReadbackOfTheTraced(t *testing.T) {
	requireReadback(t)
	pid := filtered(t, nativeFilter(t).Program)
	held, let := make(chan syscall.Errno), make(chan struct{})
	go func() {
		runtime.LockOSThread() // and end with the thread, which lets go of pid
		held <- ptrace(ptraceSeize, pid, 0, 0)
		<-let
	}()
	if e := <-held; e != 0 {
		t.Fatal(e)
	}
	if _, err := Readback(pid, 0); !errors.Is(err, syscall.EPERM) {
		t.Errorf("traced by another: %v, want EPERM", err)
	}
	close(let)
}

func BenchmarkReadback(b *testing.B) {
	requireReadback(b)
	pid := filtered(b, nativeFilter(b).Program)
	for b.Loop() {
		if _, err := Readback(pid, 0); err != nil {
			b.Fatal(err)
		}
	}
}

// linear is the program that a compiler without a tree makes of the same decisions: one comparison a number.
func linear(p Program, arch string) Program {
	m, _ := machineOf(arch)
	l := Program{{Code: opLoad, K: dataArch}, {Code: opIfEqual, K: m.audit, JT: 1}, {Code: opReturn, K: uint32(KillProcess)}, {Code: opLoad, K: dataNumber}}
	for n := range m.names() {
		l = append(l, Instruction{Code: opIfEqual, K: uint32(n), JF: 1}, Instruction{Code: opReturn, K: p.Run(m.audit, uint64(n), [6]uint64{})})
	}
	return append(l, Instruction{Code: opReturn, K: uint32(Errno(syscall.ENOSYS))})
}

// BenchmarkInstall times seccomp(2) alone, tree and linear in turn, each on a thread that ends afterwards.
func BenchmarkInstall(b *testing.B) {
	tree := nativeFilter(b).Program
	line := linear(tree, runtime.GOARCH)
	var took [2][]time.Duration
	for b.Loop() {
		for i, p := range []Program{tree, line} {
			done := make(chan time.Duration)
			go onOwnThread(func() bool {
				started := time.Now()
				if err := install(p, 0); err != nil {
					b.Error(err)
				}
				done <- time.Since(started)
				return false // the thread ends with its filter
			})
			took[i] = append(took[i], <-done)
		}
	}
	for i := range took {
		slices.Sort(took[i])
	}
	t, l := took[0][len(took[0])/2], took[1][len(took[1])/2]
	b.ReportMetric(float64(t.Nanoseconds())/1e3, "tree-µs")
	b.ReportMetric(float64(l.Nanoseconds())/1e3, "linear-µs")
	b.ReportMetric(float64(l)/float64(t), "linear/tree")
	b.ReportMetric(float64(len(tree)), "tree-instructions")
	b.ReportMetric(float64(len(line)), "linear-instructions")
}
