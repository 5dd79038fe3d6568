package python

import (
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/policy"
)

// TestTracebacks: whatever ends a program, its traceback has the program's own line numbers and lines, and no frame of the driver's.
func TestTracebacks(t *testing.T) {
	frame := func(line, name, source string) string {
		return "  File \"<sandbox>\", line " + line + ", in " + name + "\n    " + source + "\n"
	}
	rows := map[string]struct {
		code string
		// want are parts of stderr, in this order.
		want  []string
		since int // of 3
	}{
		"syntax":      {"x = 1\ndef f(:\n    pass\n", []string{"  File \"<sandbox>\", line 2\n    def f(:\n", "SyntaxError: "}, 0},
		"indentation": {"if True:\nprint(1)\n", []string{"  File \"<sandbox>\", line 2\n    print(1)\n", "IndentationError: "}, 0},
		"nested": {
			"def outer(n):\n    def inner():\n        return [1][n]  # here\n    return inner()\n\n\nclass A:\n    p = property(lambda self: outer(3))\n\n\nA().p\n",
			[]string{
				"Traceback (most recent call last):\n" + frame("11", "<module>", "A().p"), frame("8", "<lambda>", "p = property(lambda self: outer(3))"),
				frame("4", "outer", "return inner()"), frame("3", "inner", "return [1][n]  # here"), "IndexError: list index out of range\n",
			}, 0,
		},
		"what it executes": {
			"code = 'a = 1\\nb = a / 0\\n'\nexec(compile(code, 'made.py', 'exec'))",
			[]string{frame("2", "<module>", "exec(compile(code, 'made.py', 'exec'))"), "  File \"made.py\", line 2, in <module>\n", "ZeroDivisionError: "}, 0,
		},
		"chained": {
			"try:\n    try:\n        {}['k']\n    except KeyError as e:\n        raise ValueError('v') from e\nexcept ValueError:\n    int('x')\n",
			[]string{
				frame("3", "<module>", "{}['k']"), "KeyError: 'k'\n", "The above exception was the direct cause of the following exception:",
				frame("5", "<module>", "raise ValueError('v') from e"), "ValueError: v\n", "During handling of the above exception, another exception occurred:",
				frame("7", "<module>", "int('x')"), "ValueError: invalid literal",
			}, 0,
		},
		"a group": {
			"def a():\n    raise ValueError('a')\n\n\nfound = []\nfor f in a, lambda: 1 / 0:\n    try:\n        f()\n    except Exception as e:\n        found.append(e)\nraise ExceptionGroup('many', found)\n",
			[]string{
				"  + Exception Group Traceback (most recent call last):\n", "File \"<sandbox>\", line 11, in <module>\n  |     raise ExceptionGroup('many', found)\n",
				"ExceptionGroup: many (2 sub-exceptions)\n", "File \"<sandbox>\", line 2, in a\n    |     raise ValueError('a')\n    | ValueError: a\n",
				"line 6, in <lambda>\n    |     for f in a, lambda: 1 / 0:\n", "ZeroDivisionError: ",
			}, 11,
		},
		"a note":          {"e = ValueError('x')\ne.add_note('look there')\nraise e\n", []string{frame("3", "<module>", "raise e"), "ValueError: x\nlook there\n"}, 11},
		"deep recursion":  {"def f():\n    f()\n\n\nf()\n", []string{frame("5", "<module>", "f()"), frame("2", "f", "f()"), "more times]\nRecursionError: "}, 0},
		"other line ends": {"x = 1\r\ny = 'é' + 1\r\n", []string{frame("2", "<module>", "y = 'é' + 1"), "TypeError: "}, 0},
		"a task": {
			"import asyncio\n\n\nasync def a():\n    await asyncio.sleep(0)\n    raise KeyError('async')\n\n\nasyncio.run(a())\n",
			[]string{frame("9", "<module>", "asyncio.run(a())"), frame("6", "a", "raise KeyError('async')"), "KeyError: 'async'\n"}, 0,
		},
	}
	eachInterpreter(t, func(t *testing.T, python interpreter) {
		for name, row := range rows {
			if python.minor < row.since {
				continue
			}
			got := runProgram(t, python, policy.Program{Code: row.code})
			// Marks under a line differ from one version to the next.
			var kept []string
			for _, line := range strings.SplitAfter(got.stderr, "\n") {
				if strings.Trim(line, " |~^\n") != "" || line == "\n" {
					kept = append(kept, line)
				}
			}
			rest := strings.Join(kept, "")
			for _, part := range row.want {
				_, after, found := strings.Cut(rest, part)
				if rest = after; !found {
					t.Errorf("%s: %q isn't there, or not in its place:\n%s", name, part, got.stderr)
					break
				}
			}
			if got.exit != 1 || strings.Contains(got.stderr, "driver") || strings.Contains(got.stderr, "<string>") {
				t.Errorf("%s: exit %d, or a frame that isn't the program's:\n%s", name, got.exit, got.stderr)
			}
		}
	})
}
