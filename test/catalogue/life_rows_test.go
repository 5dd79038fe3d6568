package catalogue

import (
	"strings"
	"testing"
	"time"
)

// ended says that a reply came in time, and that no process with these words in its command line is left on this machine.
func ended(within time.Duration, words ...string) func(*testing.T, *answer) {
	return func(t *testing.T, a *answer) {
		if a.took > within {
			t.Errorf("the answer took %s", a.took)
		}
		if left := processesWith(t, a.f.probe+"\x00"+strings.Join(words, "\x00")); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	}
}

// soon bounds an answer that must not wait for anybody. It is far more than is needed, on a machine that is busy with other tests too.
const soon = 15 * time.Second

// lifeRows are how processes live, hide and die: group B.
var lifeRows = []row{
	{id: "B1", what: "a child in the background that holds stdout", run: []string{"PROBE", "hold-fd"}, also: ended(soon, "hold-fd")},
	{id: "B1", what: "one that holds it from a session of its own, deaf to signals", run: []string{"PROBE", "setsid-runaway"}, also: ended(soon, "setsid-runaway")},
	{id: "B1", what: "one in a pipeline", run: []string{"sh", "-c", "sleep 1000 | sleep 1000 & echo started"}, stdout: "started"},
	{id: "B2", what: "sessions of their own and double forks at the time-out", body: `"limits":{"timeoutSeconds":1}`,
		run: []string{"PROBE", "fork-tree", "5", "--depth", "3", "--setsid"}, outcome: "timeout", stderr: "started 5", also: ended(soon, "fork-tree", "5")},
	{id: "B3", what: "a leader that ignores SIGTERM", body: `"limits":{"timeoutSeconds":1}`, run: []string{"PROBE", "ignore-term"}, outcome: "timeout",
		stderr: "ignoring", also: ended(soon, "ignore-term")},
	{id: "B3", what: "a tree with every signal blocked", body: `"limits":{"timeoutSeconds":1}`,
		run: []string{"PROBE", "fork-tree", "4", "--depth", "2", "--setsid", "--ignore-term"}, outcome: "timeout", also: ended(soon, "fork-tree", "4")},
	{id: "B4", what: "a leader that is stopped at the time-out", body: `"limits":{"timeoutSeconds":1}`, run: []string{"PROBE", "stop", "leader"}, outcome: "timeout",
		also: ended(soon, "stop", "leader")},
	{id: "B4", what: "a tree that is stopped", body: `"limits":{"timeoutSeconds":1}`,
		run: []string{"PROBE", "fork-tree", "6", "--depth", "2", "--setsid", "--stop"}, outcome: "timeout", also: ended(soon, "fork-tree", "6")},
	{id: "B4", what: "a stopped child left behind by a leader that ends", run: []string{"sh", "-c", "PROBE stop child & sleep 0.2; echo over"}, stdout: "over",
		also: ended(soon, "stop", "child")},
	{id: "B6", what: "a fork bomb", body: `"limits":{"timeoutSeconds":1,"pids":64}`, run: []string{"sh", "-c", "PROBE fork-bomb & exec sleep 60"},
		outcome: "timeout", also: ended(soon, "fork-bomb")},
	{id: "B6", what: "one process more than the limit", pod: "not offered: a limit of processes for one exec alone", body: `"limits":{"pids":20}`, run: []string{"sh", "-c", "PROBE fork-tree 100 2>&1; echo over"},
		stdout: `"errno":"EAGAIN"`, also: ended(soon, "fork-tree", "100")},
	{id: "B7", what: "a process that is always a new one, racing the kill", body: `"limits":{"timeoutSeconds":1,"pids":64}`,
		run: []string{"sh", "-c", "PROBE fork-chase one & PROBE fork-chase one & PROBE fork-chase one & exec sleep 60"}, outcome: "timeout", also: ended(soon, "fork-chase", "one")},
	{id: "B7", what: "the same, when the leader ends", body: `"limits":{"pids":64}`, run: []string{"sh", "-c", "PROBE fork-chase two & PROBE fork-chase two & sleep 0.3; echo over"},
		stdout: "over", also: ended(soon, "fork-chase", "two")},
	{id: "B10", what: "signals to the launcher and to those outside", beside: true, try: `
		kill 1                           → EPERM
		kill 1 9                         → EPERM
		kill HOST 9                      → ESRCH
		kill DAEMON 9                    → ESRCH (pod: EPERM)
		syscall tgkill 1 1 9             → EPERM
		syscall tkill 1 9                → EPERM`, readBack: "identity.uid namespaces.pid"},
	{id: "B10", what: "signals to another exec of the same sandbox", beside: true, needs: []feature{signalScope}, try: `
		kill SIBLING                     → EPERM
		kill SIBLING 9                   → EPERM
		kill SIBLING 19                  → EPERM
		syscall tkill SIBLING 9          → EPERM
		syscall tgkill SIBLING SIBLING 9 → EPERM
		syscall kill -1 0                → EPERM or ESRCH or done`, readBack: "identity.uid"},
	{id: "B10", what: "every process at once", beside: true, needs: []feature{signalScope}, run: []string{"sh", "-c", "kill -9 -1; exit 3"}, outcome: "error 3"},
	{id: "B10", what: "the worker, who is one's parent", beside: true, run: []string{"sh", "-c", "kill -9 $PPID; kill -STOP $PPID; echo $?"}, stdout: "1"},
	{id: "B15", what: "a program that ends with 137 by itself", run: []string{"PROBE", "exit", "137"}, outcome: "error 137"},
	{id: "B15", what: "with 124", run: []string{"PROBE", "exit", "124"}, outcome: "error 124"},
	{id: "B15", what: "with 125", run: []string{"PROBE", "exit", "125"}, outcome: "error 125"},
	{id: "B15", what: "with 126", run: []string{"PROBE", "exit", "126"}, outcome: "error 126"},
	{id: "B15", what: "with 127", run: []string{"PROBE", "exit", "127"}, outcome: "error 127"},
	{id: "B15", what: "with 130", run: []string{"PROBE", "exit", "130"}, outcome: "error 130"},
	{id: "B15", what: "with 255", run: []string{"PROBE", "exit", "255"}, outcome: "error 255"},
	{id: "B15", what: "by SIGKILL of its own", run: []string{"PROBE", "raise", "9"}, outcome: "signaled 9"},
	{id: "B15", what: "by SIGTERM of its own", run: []string{"PROBE", "raise", "15"}, outcome: "signaled 15"},
	{id: "B15", what: "by a signal without a name", run: []string{"sh", "-c", "kill -40 $$"}, outcome: "signaled 40"},
	{id: "B16", what: "more memory than there may be", lack: "cgroup.memory", body: `"limits":{"memoryBytes":67108864}`, run: []string{"PROBE", "memory", "500000000"},
		outcome: "oom", readBack: "cgroup cgroup.memory.max"},
	// The group goes as a whole (memory.oom.group): what is left of a program whose memory ran out can't be trusted to say so.
	{id: "B16", what: "a child out of memory, and a leader that would end by itself", lack: "cgroup.memory", body: `"limits":{"memoryBytes":67108864}`,
		run: []string{"sh", "-c", "PROBE memory 500000000; exit 7"}, outcome: "oom", also: func(t *testing.T, a *answer) {
			if a.reply.OOMKills == 0 || a.records[len(a.records)-1].Ending.OOMKills != a.reply.OOMKills {
				t.Errorf("oomKills %d", a.reply.OOMKills)
			}
		}},
	{id: "B17", what: "our own kill", body: `"limits":{"timeoutSeconds":0.3}`, run: []string{"PROBE", "sleep", "1000"}, outcome: "timeout", also: ended(soon, "sleep", "1000")},
	{id: "B21", what: "more processors than are allowed", lack: "cgroup.cpu", body: `"limits":{"cpu":0.5,"timeoutSeconds":2}`, run: []string{"PROBE", "spin", "4"},
		outcome: "timeout", readBack: "cgroup cgroup.cpu.max", also: func(t *testing.T, a *answer) {
			if a.reply.Usage.CPUSeconds > 1.6 {
				t.Errorf("%.2f s of processor time in 2 s at half a processor", a.reply.Usage.CPUSeconds)
			}
		}},
	{id: "B21", what: "more processor time than is allowed", lack: "cgroup.usage", body: `"limits":{"cpuSeconds":1}`, run: []string{"PROBE", "spin", "2"}, outcome: "timeout",
		also: func(t *testing.T, a *answer) {
			if !strings.Contains(a.reply.Message, "limits.cpuSeconds") || a.reply.Usage.CPUSeconds < 0.9 {
				t.Errorf("message %q, %.2f s", a.reply.Message, a.reply.Usage.CPUSeconds)
			}
		}},
	{id: "B21", what: "every processor, until the time-out", body: `"limits":{"timeoutSeconds":1}`, run: []string{"PROBE", "spin", "8"}, outcome: "timeout"},
}

// startRows are programs that can't be started: B19. The program's own 126 and 127 are B15.
var startRows = []row{
	{id: "B19", what: "a program that isn't there", run: []string{"no-such-program"}, outcome: "not_started ENOENT"},
	{id: "B19", what: "a path that isn't there", run: []string{"/no/such/program"}, outcome: "not_started ENOENT"},
	{id: "B19", what: "a directory", run: []string{"/usr/bin"}, outcome: "not_started EACCES"},
	{id: "B19", what: "a file that isn't executable", run: []string{"SHOW/not-executable"}, outcome: "not_started EACCES"},
	{id: "B19", what: "a program for another machine", run: []string{"SHOW/foreign"}, outcome: "not_started ENOEXEC"},
	{id: "B19", what: "half a program", run: []string{"SHOW/cut"}, outcome: "not_started ENOEXEC"},
	{id: "B19", what: "an empty file", run: []string{"SHOW/empty"}, outcome: "not_started ENOEXEC"},
	{id: "B19", what: "a text without an interpreter's line", run: []string{"SHOW/text"}, outcome: "not_started ENOEXEC"},
	{id: "B19", what: "a script whose interpreter isn't there", run: []string{"SHOW/script-without-interpreter"}, outcome: "not_started ENOENT"},
	{id: "B19", what: "a script whose interpreter is a directory", run: []string{"SHOW/script-of-directory"}, outcome: "not_started EACCES"},
	{id: "B19", what: "a FIFO", run: []string{"SHOW/fifo"}, outcome: "not_started EACCES"},
	{id: "B19", what: "a link out of the sandbox", run: []string{"SHOW/link-out"}, outcome: "not_started ENOENT"},
	{id: "B19", what: "a path through a file", run: []string{"SHOW/text/x"}, outcome: "not_started ENOTDIR"},
	{id: "B19", what: "a name of 300 letters", run: []string{"/" + strings.Repeat("x", 300)}, outcome: "not_started ENAMETOOLONG"},
	{id: "B19", what: "a working directory that isn't there", run: []string{"PROBE", "exit", "0"}, with: `"cwd":"/no/such"`, outcome: "not_started ENOENT"},
	{id: "B19", what: "a working directory that is a file", run: []string{"PROBE", "exit", "0"}, with: `"cwd":"SHOW/text"`, outcome: "not_started ENOTDIR"},
	{id: "B19", what: "a device as the program, denied by policy", run: []string{"/dev/null"}, outcome: "denied command.argv[0]"},
	{id: "B19", what: "the launcher as the program, denied by policy", run: []string{"/proc/1/exe"}, outcome: "denied command.argv[0]"},
}
