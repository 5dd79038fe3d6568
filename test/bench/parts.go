package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/enforcer"
	"github.com/sandboxd/sandboxd/enforcer/seccomp"
	"github.com/sandboxd/sandboxd/policy/engine"
	"github.com/sandboxd/sandboxd/rego"
)

// parts are the rows that are one piece of the walk alone.
func parts(b *bench) error {
	for _, part := range []func(*bench) error{decisions, readback, install, launcher} {
		if err := part(b); err != nil {
			return err
		}
	}
	return nil
}

// decisions: the built-in bundle, a request never seen before and the same one again.
func decisions(b *bench) error {
	judge, err := engine.Open(b.ctx, engine.Options{FS: rego.Bundle})
	if err != nil {
		return err
	}
	defer judge.Close()
	var fresh, again sample
	for i := range b.rounds {
		r := request("", target, strconv.Itoa(i))
		for _, times := range []*sample{&fresh, &again} {
			took, err := timed(func() error {
				if d := judge.Decide(b.ctx, r); !d.Allow {
					return fmt.Errorf("denied: %v", d.Reasons)
				}
				return nil
			})
			if err != nil {
				return err
			}
			*times = append(*times, took)
		}
	}
	b.add("decision by the built-in bundle, p50", "≤ 350 µs", short(fresh.p50()), met(float64(fresh.p50()), 350e3))
	b.add("the same request again, p50", "≤ 5 µs", short(again.p50()), met(float64(again.p50()), 5e3))
	return nil
}

// readback looks at processes that nobody looked at before, as the walk does.
func readback(b *bench) error {
	host, err := enforcer.ProbeHost(enforcer.HostConfig{})
	if err != nil {
		return err
	}
	var times sample
	for range min(b.rounds, 200) {
		child := exec.Command("/bin/sleep", "10")
		if err := child.Start(); err != nil {
			return err
		}
		time.Sleep(2 * time.Millisecond) // past its own start, which isn't the row
		took, err := timed(func() error { _, err := enforcer.Observe(child.Process.Pid, host); return err })
		_ = child.Process.Kill()
		_ = child.Wait()
		if err != nil {
			return err
		}
		times = append(times, took)
	}
	b.add("read-back of a fresh process, everything, p50", "≤ 400 µs", short(times.p50()), met(float64(times.p50()), 400e3))
	return nil
}

// install times seccomp(2) with the default filter, in throw-away processes.
func install(b *bench) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	var times sample
	for range min(b.rounds, 100) {
		out, err := exec.Command(self, installWord).Output()
		if err != nil {
			return err
		}
		nanoseconds, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
		if err != nil {
			return err
		}
		times = append(times, time.Duration(nanoseconds))
	}
	program, err := defaultProgram()
	if err != nil {
		return err
	}
	b.add(fmt.Sprintf("BPF install, %d instructions, p50", len(program)), "≤ 0.25 ms, ≤ 400 instructions", short(times.p50()), met(float64(times.p50()), 250e3))
	return nil
}

// installWord makes this program install the default filter on itself and print how long that took.
const installWord = "install-default-filter"

func installAndExit() {
	runtime.LockOSThread()
	program, err := defaultProgram()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	bytes := program.Bytes()
	fprog := unix.SockFprog{Len: uint16(len(bytes) / 8), Filter: (*unix.SockFilter)(unsafe.Pointer(&bytes[0]))}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	begin := time.Now()
	_, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&fprog)))
	took := time.Since(begin)
	if errno != 0 {
		fmt.Fprintln(os.Stderr, errno)
		os.Exit(1)
	}
	fmt.Println(took.Nanoseconds())
	os.Exit(0)
}

func defaultProgram() (seccomp.Program, error) {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return nil, err
	}
	p, err := seccomp.RuntimeDefault(runtime.GOARCH, unix.ByteSliceToString(name.Release[:]))
	if err != nil {
		return nil, err
	}
	return seccomp.Compile(p, runtime.GOARCH)
}

// launcher: the program's own start over a bare spawn, and what a worker that has worked holds.
func launcher(b *bench) error {
	path := filepath.Join(b.dir, "sandboxd-runner")
	kinds := []kind{
		{"bare", bare},
		{"launcher", func() error {
			err := exec.Command(path).Run() // exits with a usage error once its runtime is up
			var exited *exec.ExitError
			if errors.As(err, &exited) {
				return nil
			}
			return err
		}},
	}
	times, _, err := interleaved(1, min(b.rounds, 200), kinds)
	if err != nil {
		return err
	}
	b.add("launcher start to exit, p50 (a bare spawn beside it)", "≤ 2 ms", fmt.Sprintf("%s (%s)", short(times["launcher"].p50()), short(times["bare"].p50())),
		met(float64(times["launcher"].p50()), 2e6))
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	b.add("launcher binary", "≤ 4 MB", fmt.Sprintf("%.2f MB", float64(info.Size())/1e6), met(float64(info.Size()), 4e6))
	service, err := b.service(b.memory + "/worker")
	if err != nil {
		return err
	}
	defer service.Close(b.ctx)
	for range 200 {
		if err := gated(b.ctx, service.Service, service.box); err != nil {
			return err
		}
	}
	most, err := workerMemory()
	if err != nil {
		return err
	}
	b.add("worker memory after 200 execs (RSS)", "≤ 4 MiB", fmt.Sprintf("%.1f MiB", float64(most)/(1<<20)), met(float64(most), 4<<20))
	return nil
}

// workerMemory is the largest RSS among the workers of our launchers.
func workerMemory() (int64, error) {
	entries, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return 0, err
	}
	var most int64
	for _, entry := range entries {
		dir := filepath.Dir(entry)
		cmdline, err := os.ReadFile(entry)
		if err != nil || !strings.HasPrefix(string(cmdline), "sandboxd-runner\x00worker") {
			continue
		}
		launcher, err := statusNumber(dir, "PPid:")
		if err != nil {
			continue // it ended meanwhile
		}
		if daemon, err := statusNumber(fmt.Sprintf("/proc/%d", launcher), "PPid:"); err != nil || daemon != int64(os.Getpid()) {
			continue // somebody else's
		}
		if rss, err := memoryOf(dir); err == nil {
			most = max(most, rss)
		}
	}
	if most == 0 {
		return 0, fmt.Errorf("no worker found")
	}
	return most, nil
}

// memoryOf is VmRSS of a /proc/PID, in bytes.
func memoryOf(dir string) (int64, error) {
	kilobytes, err := statusNumber(dir, "VmRSS:")
	return kilobytes << 10, err
}

// statusNumber is a number of /proc/PID/status.
func statusNumber(dir, name string) (int64, error) {
	data, err := os.ReadFile(dir + "/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		if fields := strings.Fields(line); len(fields) >= 2 && fields[0] == name {
			return strconv.ParseInt(fields[1], 10, 64)
		}
	}
	return 0, fmt.Errorf("%s: no %s", dir, name)
}
