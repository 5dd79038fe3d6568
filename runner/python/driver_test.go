package python

import (
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/policy"
)

// program is a row: code, and what has to come of it. An empty how is "value".
type program struct {
	code, inputs string
	value, how   string
	exit         int
	stdout       string
	stderr       string // contained; empty: stderr is empty; "*": whatever
	reason       string // contained
}

// Who starts the tests in the background may have SIGINT ignored, and Go leaves it so; what they start must have it as programs of a sandbox do. Handled here,
// it is the default there.
func init() {
	if signal.Ignored(os.Interrupt) {
		signal.Notify(make(chan os.Signal, 1), os.Interrupt)
	}
}

func check(t *testing.T, rows []program) {
	eachInterpreter(t, func(t *testing.T, python interpreter) {
		for _, row := range rows {
			input := policy.Program{Code: row.code}
			if row.inputs != "" {
				input.Inputs = []byte(row.inputs)
			}
			got := runProgram(t, python, input)
			if row.how == "" {
				row.how = HowValue
			}
			if row.value == "" {
				row.value = "null"
			}
			name := strings.ReplaceAll(row.code, "\n", "; ")
			name = name[:min(len(name), 150)]
			if string(got.result.Value) != row.value || got.result.How != row.how {
				t.Errorf("%s\n got %s %.300s (%s)\nwant %s %.300s", name, got.result.How, got.result.Value, got.result.Reason, row.how, row.value)
			}
			if !strings.Contains(got.result.Reason, row.reason) {
				t.Errorf("%s\nthe reason is %q, want %q in it", name, got.result.Reason, row.reason)
			}
			if got.exit != row.exit || got.stdout != row.stdout {
				t.Errorf("%s\n got exit %d, stdout %q\nwant exit %d, stdout %q\nstderr %s", name, got.exit, got.stdout, row.exit, row.stdout, got.stderr)
			}
			if row.stderr != "*" && (row.stderr == "" && got.stderr != "" || !strings.Contains(got.stderr, row.stderr)) {
				t.Errorf("%s\nstderr is %q, want %q", name, got.stderr, row.stderr)
			}
			if strings.Contains(got.stderr, "<string>") || strings.Contains(got.stderr, "in main") {
				t.Errorf("%s\nthe driver's own frames are in stderr: %s", name, got.stderr)
			}
		}
	})
}

func TestNamespace(t *testing.T) {
	check(t, []program{
		{code: "_return = inputs['a'] + 1", inputs: `{"a": 41}`, value: "42"},
		{code: "_return = inputs", inputs: `[1, 1.0, -0.0, 1e22, "\ud800é", null, true, 12345678901234567890123, {"b": 1, "a": 2, "b": 3}]`,
			value: `[1, 1.0, -0.0, 1e+22, "\ud800\u00e9", null, true, 12345678901234567890123, {"b": 3, "a": 2}]`},
		{code: "_return = inputs", inputs: ` {"a":1} `, value: `{"a": 1}`},
		{code: "_return = inputs", inputs: strings.Repeat("[", 900) + strings.Repeat("]", 900), value: strings.Repeat("[", 900) + strings.Repeat("]", 900)},
		{code: "_return = inputs", inputs: "1" + strings.Repeat("0", 4299), value: "1" + strings.Repeat("0", 4299)},
		{code: "_return = sorted(k for k in globals())", value: `["__builtins__", "_return", "inputs"]`},
		{code: "_return = __name__", value: `"builtins"`},
		{code: "if __name__ == '__main__':\n    _return = 1", value: "null"},
		{code: "class C: pass\n_return = C.__module__", value: `"builtins"`},
		{code: "1 + 1", value: "null"},
		{code: "del _return", value: "null"},
		{code: "globals().clear()", value: "null"},
		{code: "def f():\n    global _return\n    _return = 3\nf()", value: "3"},
		{code: "exec('_return = 4')", value: "4"},
		{code: "globals()['_return'] = 5", value: "5"},
		{code: "print(__file__)", exit: 1, stderr: "NameError: name '__file__' is not defined"},
		{code: "a = 1\r\nb = 2\rc = 3\x0c\n_return = a + b + c", value: "6"},
		{code: "# -*- coding: latin-1 -*-\n_return = 'é'", value: `"\u00e9"`},
		{code: "", value: "null"},
		{code: "import sys\n_return = sys.argv", value: `["-c"]`},
		{code: "import sys\n_return = sys.stdin.read()", value: `""`},
		{code: "print('é \\udc80')", stdout: "é \x80\n"},
		{code: "import sys\nsys.stdout.write('a\\r\\nb')\nprint('__DR_SANDBOX_RESULT__:1')\n_return = 2", value: "2", stdout: "a\r\nb__DR_SANDBOX_RESULT__:1\n"},
		// No descriptor of ours but the result's is open, and that isn't inherited.
		{code: "import os\n_return = [os.get_inheritable(5)] + [n for n in (3, 4, 6) if os.path.exists('/proc/self/fd/%d' % n)]", value: "[false]"},
		{code: "import subprocess, sys\n_return = subprocess.run([sys.executable, '-c', 'import os; print([n for n in range(3, 9) if os.path.exists(\"/proc/%d/fd/%d\" % (os.getpid(), n))])'], stdout=subprocess.PIPE, close_fds=False).stdout.decode()",
			value: `"[]\n"`},
	})
}

func TestEndings(t *testing.T) {
	const v = "import sys, os\n_return = 'v'\n"
	check(t, []program{
		{code: v + "1/0", exit: 1, value: `"v"`, stderr: "Traceback (most recent call last):\n  File \"<sandbox>\", line 3, in <module>\n    1/0\n"},
		{code: "x = (\n", exit: 1, stderr: "Traceback (most recent call last):\n  File \"<sandbox>\", line 1"},
		{code: "\ufeffx = 1", exit: 1, stderr: "SyntaxError"},
		{code: v + "class B(BaseException): pass\nraise B('b')", exit: 1, value: `"v"`, stderr: "B: b"},
		{code: v + "raise KeyboardInterrupt", exit: 1, value: `"v"`, stderr: "KeyboardInterrupt"},
		{code: v + "import signal\nos.kill(os.getpid(), signal.SIGINT)\nimport time\ntime.sleep(9)", exit: 1, value: `"v"`, stderr: "KeyboardInterrupt"},
		{code: "def f(): return f()\nf()", exit: 1, stderr: "RecursionError: maximum recursion depth exceeded"},
		{code: "class E(Exception):\n    def __str__(self): raise RuntimeError\nraise E", exit: 1, stderr: "E: <"},
		{code: "try:\n    {}['k']\nexcept KeyError as e:\n    raise RuntimeError('outer') from e", exit: 1, stderr: "The above exception was the direct cause"},
		{code: v + "sys.exit()", value: `"v"`},
		{code: v + "sys.exit(None)", value: `"v"`},
		{code: v + "sys.exit(False)", value: `"v"`},
		{code: v + "sys.exit(True)", value: `"v"`, exit: 1},
		{code: v + "sys.exit(3)", value: `"v"`, exit: 3},
		{code: v + "sys.exit(-1)", value: `"v"`, exit: 255},
		{code: v + "sys.exit(2**32 + 7)", value: `"v"`, exit: 7},
		{code: v + "sys.exit('text')", value: `"v"`, exit: 1, stderr: "text\n"},
		{code: v + "sys.exit('')", value: `"v"`, exit: 1, stderr: "\n"},
		{code: v + "sys.exit((1, 2))", value: `"v"`, exit: 1, stderr: "(1, 2)\n"},
		{code: v + "exit(4)", value: `"v"`, exit: 4},
		{code: v + "class O:\n    def __str__(self): raise RuntimeError('x')\nsys.exit(O())", value: `"v"`, exit: 1, stderr: "File \"<sandbox>\", line 4, in __str__\n    def __str__(self): raise RuntimeError('x')\n"},
		{code: v + "class E(SystemExit):\n    @property\n    def code(self): raise ValueError('no code')\nraise E", value: `"v"`, exit: 1, stderr: "ValueError: no code"},
		{code: v + "os._exit(5)", how: HowNone, exit: 5, reason: "without handing over a value"},
		{code: v + "os.abort()", how: HowNone, exit: 134},
		{code: v + "os.kill(os.getpid(), 9)", how: HowNone, exit: 137},
		{code: v + "import atexit\natexit.register(lambda: print('bye'))", value: `"v"`, stdout: "bye\n"},
		{code: v + "import threading, time\nthreading.Thread(target=lambda: (time.sleep(0.05), print('late'))).start()", value: `"v"`, stdout: "late\n"},
		{code: "a = 1\r\nb = 2\rc(\n)\n", exit: 1, stderr: "line 3, in <module>\n    c(\n"},
		{code: "import __main__\nraise __main__._SandboxTimeout('forged')", exit: 1, stderr: "SandboxTimeout: forged"},
		{code: v + "import signal, time\nsignal.setitimer(signal.ITIMER_REAL, 0.05)\ntime.sleep(9)", exit: 1, value: `"v"`, stderr: "SandboxTimeout: sandbox exceeded timeout of 60s\n"},
		{code: v + "sys.excepthook = None\n1/0", exit: 1, value: `"v"`, stderr: "ZeroDivisionError"},
		{code: v + "sys.__excepthook__ = None\n1/0", exit: 1, value: `"v"`, stderr: "ZeroDivisionError"},
		{code: v + "import traceback\ntraceback.print_exc = traceback.print_exception = traceback.TracebackException = None\n1/0", exit: 1, value: `"v"`, stderr: "ZeroDivisionError"},
	})
}

func TestValues(t *testing.T) {
	check(t, []program{
		{code: "_return = (1, [2], {'b': 1, 'a': None})", value: `[1, [2], {"b": 1, "a": null}]`},
		{code: "_return = '\\x00é\U0001F600\\ud800\"'", value: `"\u0000\u00e9\ud83d\ude00\ud800\""`},
		{code: "import enum\nclass E(enum.IntEnum): A = 3\nclass S(str): pass\n_return = [E.A, S('x'), True, 1.0, -0.0, 1e22]", value: `[3, "x", true, 1.0, -0.0, 1e+22]`},
		{code: "import datetime\n_return = [{1, }, b'x', datetime.date(2020, 1, 2), range(3), 1j]", value: `["{1}", "b'x'", "2020-01-02", "range(0, 3)", "1j"]`},
		{code: "_return = {1: 1, 2.5: 2, True: 3, None: 4, '1': 5}", value: `{"1": 3, "2.5": 2, "null": 4, "1": 5}`},
		{code: "_return = 'NaN \\\\\" Infinity'", value: `"NaN \\\" Infinity"`},
		{code: "_return = [float('nan'), 'NaN\"', {float('inf'): float('-inf')}, float('inf')]", value: `[null, "NaN\"", {"Infinity": null}, null]`, how: HowReplaced, reason: "3 times"},
		{code: "_return = float('nan')", value: `null`, how: HowReplaced, reason: "1 times"},
		{code: "_return = {(1, 2): 3}", value: `"{(1, 2): 3}"`, how: HowRepr, reason: "json.dumps refused"},
		{code: "_return = []\n_return.append(_return)", value: `"[[...]]"`, how: HowRepr},
		{code: "_return = 10 ** 5000", how: HowFailed},
		{code: "import sys\nif hasattr(sys, 'set_int_max_str_digits'): sys.set_int_max_str_digits(0)\n_return = 10 ** 5000", how: HowFailed, reason: "an integer of 5001 digits"},
		{code: "x = []\nfor _ in range(950): x = [x]\n_return = x", how: HowFailed},
		{code: "x = []\nfor _ in range(100000): x = [x]\n_return = x", how: HowFailed, reason: "RecursionError"},
		{code: "class O:\n    def __str__(self): raise RuntimeError('no text')\n_return = O()", how: HowFailed, reason: "RuntimeError: no text"},
		{code: "class O:\n    def __str__(self): raise ValueError\n    def __repr__(self): return 'shown'\n_return = O()", how: HowRepr, value: `"shown"`},
		{code: "class O:\n    __str__ = __repr__ = lambda self: 1/0\n_return = O()", how: HowFailed, reason: "ZeroDivisionError"},
		{code: "class X(Exception):\n    def __str__(self): raise self\nclass O:\n    def __str__(self): raise X\n_return = O()", how: HowFailed, reason: "an exception that can't be shown"},
		{code: "class O:\n    def __str__(self): raise SystemExit(9)\n_return = O()", how: HowFailed, reason: "SystemExit: 9"},
		{code: "_return = 'x' * 5_000_000", value: `"` + strings.Repeat("x", 5_000_000) + `"`},
		{code: "_return = 'x' * (65 << 20)", how: HowFailed, reason: "the value has 68157442 bytes, at most 67108864"},
	})
}

// Code that breaks what it shares with the driver keeps its value and its exit code.
func TestHostileNeighbour(t *testing.T) {
	const v = "import sys, os\n_return = 'v'\n"
	check(t, []program{
		{code: v + "sys.stdout.close()", value: `"v"`},
		{code: v + "sys.stderr.close()\n1/0", value: `"v"`, exit: 1, stderr: "ZeroDivisionError: division by zero\n"},
		{code: v + "os.close(2)\n1/0", value: `"v"`, exit: 1},
		{code: v + "os.close(1)\nos.close(2)", value: `"v"`},
		{code: v + "sys.stdout = sys.stderr = None\nsys.exit(3)", value: `"v"`, exit: 3},
		{code: v + "sys.stdout = sys.stderr = object()\nsys.exit(3)", value: `"v"`, exit: 3},
		{code: v + "import io\nsys.stderr = io.StringIO()\n1/0", value: `"v"`, exit: 1, stderr: "ZeroDivisionError"},
		{code: v + "del sys.stdout, sys.stderr", value: `"v"`},
		{code: v + "import builtins\nbuiltins.print = builtins.str = builtins.repr = builtins.isinstance = builtins.len = builtins.type = builtins.getattr = builtins.setattr = None", value: `"v"`},
		{code: v + "import builtins\nbuiltins.BaseException = builtins.SystemExit = builtins.TypeError = builtins.ValueError = None\nraise RuntimeError('r')", value: `"v"`, exit: 1, stderr: "RuntimeError: r"},
		{code: v + "vars(__import__('builtins')).clear()", value: `"v"`, stderr: "*"}, // what is imported by the site may complain at the end
		{code: v + "import json, _json\njson.dumps = json.JSONEncoder = json.encoder.c_make_encoder = None\n_json.make_encoder = _json.encode_basestring_ascii = None", value: `"v"`},
		{code: v + "os.write = os.getpid = os.fstat = os.close = None", value: `"v"`},
		{code: v + "import __main__\nvars(__main__).clear()", value: `"v"`},
		{code: v + "sys.modules.clear()", value: `"v"`},
		{code: v + "import signal\nsignal.signal(signal.SIGPIPE, signal.SIG_DFL)", value: `"v"`},
		{code: v + "os.set_blocking(5, True)", value: `"v"`},
		{code: v + "sys.setrecursionlimit(50)", value: `"v"`},
		// The descriptor is closed, or has become something else: nothing is written to a stranger's file.
		{code: v + "os.close(5)", how: HowNone},
		{code: v + "os.close(5)\nassert os.open('f', os.O_CREAT | os.O_RDWR) == 3\nos.dup2(3, 5)\nimport atexit\natexit.register(lambda: print(os.path.getsize('f')))", how: HowNone, stdout: "0\n"},
		// Only the first process sends the value.
		{code: v + "if os.fork() == 0:\n    _return = 'child'\nelse:\n    os.wait()", value: `"v"`},
		{code: v + "pid = os.fork()\nif pid:\n    os._exit(0)\n_return = 'child'", how: HowNone},
		{code: v + "if os.fork() == 0:\n    import time\n    time.sleep(0.3)\n    os._exit(0)", value: `"v"`},
		{code: v + "import multiprocessing\np = multiprocessing.get_context('fork').Process(target=print, args=('child',))\np.start()\np.join()", value: `"v"`, stdout: "child\n"},
		// What the program writes to the descriptor itself is its own value, or none.
		{code: v + "os.write(5, b'x')", how: HowFailed, reason: "isn't a value"},
		{code: v + "os.write(5, b'v' + (2).to_bytes(8, 'big') + b'42')\nos._exit(0)", how: HowValue, value: "42"},
		{code: v + "os.write(5, b'v' + (2).to_bytes(8, 'big') + b'42')", how: HowFailed, reason: "more than one value"},
		{code: v + "os.write(5, b'v' + (1 << 63).to_bytes(8, 'big') + b'42')", how: HowFailed, reason: "at most"},
	})
}

// What json.dumps(value, default=str) says is what the driver says, also where the C halves of json are gone.
func TestEncodingIsThatOfJSON(t *testing.T) {
	const values = `[1, -1.5, "é\u2028\ud800</", 1e300, [], {}, [[]], {"a": [true, null]}, "\u007f\u0000"]`
	eachInterpreter(t, func(t *testing.T, python interpreter) {
		got := runProgram(t, python, policy.Program{Inputs: []byte(values), Code: `
import json, decimal, uuid, collections, fractions
value = [inputs, decimal.Decimal("1.10"), collections.OrderedDict(b=1, a=2), collections.Counter("aab"), uuid.UUID(int=5), object, {1.5: 2, False: 0}, 10**100, frozenset()]
print(json.dumps(value, default=str))
_return = value`})
		if want := strings.TrimSuffix(got.stdout, "\n"); want == "" || string(got.result.Value) != want {
			t.Errorf("got %s\nwant %s\nstderr %s", got.result.Value, want, got.stderr)
		}
	})
}

// Nothing is imported on top of what the interpreter imports itself: json alone takes longer than the rest of the driver.
func TestDriverImportsLittle(t *testing.T) {
	const list = "import sys; print(' '.join(sorted(n for n in sys.modules if n not in ('_json', '__mp_main__'))))"
	eachInterpreter(t, func(t *testing.T, python interpreter) {
		bare, err := exec.Command(python.path, "-I", "-X", "utf8", "-c", list).Output()
		if err != nil {
			t.Fatal(err)
		}
		if got := runProgram(t, python, policy.Program{Code: list}); got.stdout != string(bare) {
			t.Errorf("modules are %s\nwithout the driver %s", got.stdout, bare)
		}
	})
}

// The slow way, through the json package, does the same.
func TestWithoutTheCHalvesOfJSON(t *testing.T) {
	whole := driver
	t.Cleanup(func() { driver = whole })
	driver = regexp.MustCompile(`(?m)^(\s+)from _json import .*$`).ReplaceAllString(driver, "${1}raise ImportError")
	check(t, []program{
		{code: "import sys\n_return = [inputs, 1.5, object is None]", inputs: `{"a": ["\ud800"]}`, value: `[{"a": ["\ud800"]}, 1.5, false]`},
		{code: "_return = {(1,): 2}", how: HowRepr, value: `"{(1,): 2}"`},
	})
}

// At its limit a program is interrupted, and what it has by then is its value. Nothing is printed.
func TestLimit(t *testing.T) {
	eachInterpreter(t, func(t *testing.T, python interpreter) {
		for code, want := range map[string]string{
			"_return = 'partial'\nwhile True: pass":                                                        `"partial"`,
			"import time\ntry:\n    time.sleep(30)\nfinally:\n    _return = 'cleanup'":                     `"cleanup"`,
			"import asyncio\nasync def main():\n    await asyncio.sleep(30)\nasyncio.run(main())":          "null",
			"import re\nre.match(r'(a+)+$', 'a' * 40 + 'b')":                                               "null",
			"import threading\n_return = 1\nthreading.Event().wait()":                                      "1",
			"_return = 1\nimport subprocess\nsubprocess.run(['sleep', '30'])":                              "1",
			"def f():\n    global _return\n    _return = 2\n    while True:\n        max([1])\nf()\nx = 3": "2",
		} {
			got := runProgramFor(t, python, policy.Program{Code: code}, 300*time.Millisecond)
			if got.exit != 124 || string(got.result.Value) != want || got.stderr != "" {
				t.Errorf("%s\nexit %d, value %s, stderr %q; want 124, %s, nothing", code, got.exit, got.result.Value, got.stderr, want)
			}
		}
	})
}
