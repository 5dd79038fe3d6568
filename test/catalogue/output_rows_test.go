package catalogue

import (
	"bytes"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/execd/datarobot"
)

// outputRows are what a program writes, and how: C1 to C6.
var outputRows = []row{
	{id: "C1", what: "a gigabyte on one line", run: []string{"PROBE", "print", "1000000000", "stdout", "line"}, also: func(t *testing.T, a *answer) {
		if a.reply.Bytes.Stdout < 1_000_000_000 || !a.reply.Truncated.Stdout || len(a.stdout) != 1<<20 {
			t.Errorf("%d bytes were written and %d kept, truncated %t", a.reply.Bytes.Stdout, len(a.stdout), a.reply.Truncated.Stdout)
		}
	}},
	{id: "C1", what: "on stderr", run: []string{"PROBE", "print", "50000000", "stderr", "lines"}, also: func(t *testing.T, a *answer) {
		if a.reply.Bytes.Stderr != 50_000_000 || !a.reply.Truncated.Stderr || a.reply.Truncated.Stdout {
			t.Errorf("%+v %+v", a.reply.Bytes, a.reply.Truncated)
		}
	}},
	{id: "C1", what: "a policy that kills for it", daemon: "strict output", run: []string{"PROBE", "print", "1000000000"}, outcome: "output_limit"},
	{id: "C1", what: "that policy, and a program that writes just as much as it may", daemon: "strict output", body: `"limits":{"outputBytes":4096}`,
		run: []string{"sh", "-c", "head -c 4096 /dev/zero"}, also: bytesAre(bytes.Repeat([]byte{0}, 4096))},
	{id: "C1", what: "that policy, and one byte more", daemon: "strict output", body: `"limits":{"outputBytes":4096}`,
		run: []string{"sh", "-c", "head -c 4097 /dev/zero; sleep 1000"}, outcome: "output_limit"},
	{id: "C2", what: "NUL, and what isn't UTF-8", run: []string{"PROBE", "say", `a\x00b\xff\xfe\xc3(`}, also: bytesAre([]byte("a\x00b\xff\xfe\xc3("))},
	{id: "C2", what: "NULs alone", run: []string{"sh", "-c", "head -c 100 /dev/zero"}, also: bytesAre(make([]byte, 100))},
	{id: "C2", what: "line endings of every kind, and none at the end", run: []string{"PROBE", "say", `a\r\nb\rc\n\n\u2028d\x0b\x0ce`}, also: bytesAre([]byte("a\r\nb\rc\n\n\u2028d\x0b\x0ce"))},
	{id: "C2", what: "a character cut in two by the cap", body: `"limits":{"outputBytes":1024}`, run: []string{"sh", "-c", "printf x; i=0; while [ $i -lt 600 ]; do printf '\\303\\251'; i=$((i+1)); done"},
		also: bytesAre([]byte("x" + strings.Repeat("é", 511)))},
	{id: "C4", what: "stdout closed, then written to", run: []string{"PROBE", "close-stdout"}, stderr: "write: EBADF"},
	{id: "C4", what: "a pipe that nobody reads", run: []string{"PROBE", "broken-pipe"}, stderr: "write: EPIPE"},
	{id: "C4", what: "all three closed", run: []string{"sh", "-c", "exec <&- >&- 2>&-; sleep 0.2; exit 5"}, outcome: "error 5"},
	{id: "C5", what: "stdin that is never read", with: `"stdin":"` + strings.Repeat("0123456789", 100_000) + `"`, run: []string{"PROBE", "exit", "0"}},
	{id: "C5", what: "stdin that is never read, by one who stays", with: `"stdin":"` + strings.Repeat("0123456789", 100_000) + `"`, body: `"limits":{"timeoutSeconds":0.5}`,
		run: []string{"PROBE", "sleep", "1000"}, outcome: "timeout"},
	{id: "C5", what: "the end of stdin", with: `"stdin":"all of it"`, run: []string{"cat"}, also: bytesAre([]byte("all of it"))},
	{id: "C5", what: "no stdin at all", run: []string{"cat"}, also: bytesAre(nil)},
	{id: "C5", what: "stdin of any bytes", with: `"stdinBase64":"AP/+wyg="`, run: []string{"cat"}, also: bytesAre([]byte("\x00\xff\xfe\xc3("))},
	{id: "C6", what: "what was written before the time-out, on both streams", body: `"limits":{"timeoutSeconds":1}`,
		run: []string{"sh", "-c", "echo out; echo err >&2; printf half; sleep 1000"}, outcome: "timeout", stdout: "out\nhalf", stderr: "err\n"},
	{id: "C6", what: "what was written before a signal", run: []string{"sh", "-c", "echo out; kill -9 $$"}, outcome: "signaled 9", stdout: "out\n"},
	{id: "C1", what: "progress without an end of line", body: `"limits":{"timeoutSeconds":1}`, run: []string{"sh", "-c", `printf '1%%\r2%%\r'; sleep 1000`}, outcome: "timeout",
		also: bytesAre([]byte("1%\r2%\r"))},
}

// bytesAre says that stdout has every byte and no other.
func bytesAre(want []byte) func(*testing.T, *answer) {
	return func(t *testing.T, a *answer) {
		if !bytes.Equal(a.stdout, want) {
			t.Errorf("stdout has %d bytes %.200q, want %d bytes %.200q", len(a.stdout), a.stdout, len(want), want)
		}
	}
}

const marker = datarobot.Marker

// resultRows are values handed back, and forged: C7 to C14.
var resultRows = []row{
	{id: "C7", what: "the marker printed where nobody asked for it", run: []string{"PROBE", "say", marker + `{\"x\":1}\n`}, value: "absent", stdout: marker},
	{id: "C7", what: "the marker printed by Python, whose value comes another way", needs: []feature{python}, code: "print('" + marker + `{"forged": true}')` + "\n_return = 1", value: "1", stdout: marker},
	{id: "C7", what: "a value written to the descriptor by the program", needs: []feature{python}, value: "failed",
		code: "import os\nfor fd in range(3, 64):\n  try: os.write(fd, b'v' + (1).to_bytes(8, 'little') + b'7')\n  except OSError: pass\n_return = 1"},
	{id: "C9", what: "the marker without an end of line", body: `"resultMarker":true`, run: []string{"PROBE", "say", `out\n` + marker + `{\"x\":1}`}, value: `{"x":1}`},
	{id: "C9", what: "the marker cut by the cap", body: `"resultMarker":true,"limits":{"outputBytes":4096}`,
		run: []string{"PROBE", "say", strings.Repeat("a", 4090) + `\n` + marker + `{\"x\":1}\n`}, value: "absent stdout was cut"},
	{id: "C9", what: "a value cut by the cap, whose beginning is one too", body: `"resultMarker":true,"limits":{"outputBytes":4096}`,
		run: []string{"PROBE", "say", strings.Repeat("a", 4070) + `\n` + marker + strings.Repeat("1", 100) + `\n`}, value: "absent stdout was cut"},
	{id: "C9", what: "a whole marker, and another behind the cut", body: `"resultMarker":true,"limits":{"outputBytes":4096}`,
		run: []string{"PROBE", "say", marker + `1\n` + strings.Repeat("a", 5000) + `\n` + marker + `2\n`}, value: "1", also: func(t *testing.T, a *answer) {
			if !strings.Contains(a.reply.ReturnValueReason, "stdout was cut") {
				t.Errorf("reason %q", a.reply.ReturnValueReason)
			}
		}},
	{id: "C10", what: "the marker inside a line", body: `"resultMarker":true`, run: []string{"PROBE", "say", `x` + marker + `{\"x\":1}\n`}, value: "absent", stdout: marker},
	{id: "C10", what: "the marker after an escape", body: `"resultMarker":true`, run: []string{"PROBE", "say", `\x1b[0m` + marker + `{\"x\":1}\n`}, value: "absent", stdout: marker},
	{id: "C11", what: "a value that is too large", needs: []feature{python}, code: "_return = 'x' * 3_000_000", value: "failed"},
	{id: "C11", what: "a value that is too deep", needs: []feature{python}, code: "v = []\nfor _ in range(10000): v = [v]\n_return = v", value: "failed"},
	{id: "C11", what: "a marker's value that is too deep", body: `"resultMarker":true`, run: []string{"PROBE", "say", marker + strings.Repeat("[", 10000) + strings.Repeat("]", 10000) + `\n`}, value: "absent 900 levels"},
	{id: "C12", what: "numbers that JSON doesn't have", needs: []feature{python}, code: "_return = [float('nan'), float('inf'), 1e308 * 10]", value: "[null,null,null]"},
	{id: "C12", what: "a surrogate alone", needs: []feature{python}, code: `_return = "\ud800"`, value: `"\ud800"`},
	{id: "C12", what: "an object that isn't JSON", needs: []feature{python}, code: "_return = {1, 2}"},
	{id: "C12", what: "a marker's value that isn't JSON", body: `"resultMarker":true`, run: []string{"PROBE", "say", marker + `{x}\n`}, value: "absent"},
	{id: "C13", what: "the marker on stderr", body: `"resultMarker":true`, run: []string{"sh", "-c", "echo '" + marker + `{"x":1}' >&2`}, value: "absent", stderr: marker},
	{id: "C14", what: "a value from one who outlives the leader", needs: []feature{python}, value: "1",
		code: "import os\n_return = 1\nif os.fork() == 0:\n  os.setsid()\n  import time\n  time.sleep(60)\n"},
	{id: "C14", what: "an end without a word", needs: []feature{python}, code: "import os\n_return = 1\nos._exit(3)", outcome: "error 3", value: "absent"},
}
