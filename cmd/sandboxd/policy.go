package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/policy/engine"
	"github.com/sandboxd/sandboxd/rego"
)

// policyCommands are the words after policy. All of them but bind work on files alone: no daemon, no effect, no record.
func policyCommands() []command {
	return []command{
		{"policy check", "[--json] [DIR]", "tell everything that is wrong with a bundle, by file and line", policyChecks, false, (*program).policyCheck},
		{"policy test", "[flags] [DIR]", "run a bundle's tests and its corpus of decisions", policyTests, false, (*program).policyTest},
		{"policy eval", "--request FILE [--caller JSON] [DIR]", "print the decision on a request as JSON", policyEvals, false, (*program).policyEval},
		{"policy bind", "[--socket PATH] DIR | -", "give a daemon of --policy-late its policy: once", policyBinds, false, (*program).policyBind},
		{"policy explain", "--request FILE [flags] [DIR]", "say which rules spoke, and the smallest change that passes", policyExplains, false, (*program).policyExplain},
	}
}

// What help says after the flags.
const (
	policies = `
check    everything that is wrong with a bundle, by file and line
test     run its tests and its corpus of decisions; how much they reach
eval     the decision on a request, as JSON
explain  which rules spoke, the smallest change that passes, what is in force

bind     give a daemon that waits for its policy (serve --policy-late) one, for good

All but bind work on files, without a daemon, and have no effect. DIR is a bundle;
without it, it is the built-in one. sandboxd help policy check, and so on, has the flags.

  sandboxd policy check ./policy && sandboxd policy test ./policy
  echo '{"action":"exec","command":{"argv":["id"]}}' | sandboxd policy explain --request -
`
	policyChecks = `
"refused" is what no daemon puts in force: files that aren't read, rules that
don't compile, no tests, something allowed that nothing may allow. "flaw" is what
it would take, and that does other than it looks: rules without METADATA, that the
decision doesn't depend on, data that no rule looks at, or that isn't there.
Exit status: 0 when there is neither, 1 when there is; 2 when DIR can't be read.

  sandboxd policy check ./policy
`
	policyBinds = `
- is a tar archive of a bundle on standard input. The daemon tests the bundle as
it would any other, writes it to its state directory, records who bound it, and
puts it in force. There is no second time, also after a restart.
Exit status: 0 when it is in force, 1 when it isn't, 2 when DIR can't be read.

  tar -C ./policy -c . | kubectl exec -i POD -c sandboxd -- /sandboxd policy bind -
`
	policyTests = `
Exit status: 0 when all pass, 1 when one doesn't; 2 when the bundle can't be read
or doesn't compile, which policy check tells more of.

  sandboxd policy test --verbose ./policy
`
	policyEvals = `
Exit status: 0 when the request is allowed, 1 when it is denied, 2 when either
can't be read. The tests of the bundle don't run; the must-deny list does. What
this host can hold isn't asked: that is sandboxd decide.

  sandboxd policy eval ./policy --request request.json
`
	policyExplains = `
The changes are edits of the request. All of them were made, the request was read
and judged again, and allowed; without any one of them it isn't. --json has it all,
and the request with the changes made.
Exit status: as that of policy eval.

  sandboxd policy explain ./policy --request '{"action":"run","code":"1","limits":{"pids":9999}}'
`
)

// policyCommand picks the word.
func (p *program) policyCommand(ctx context.Context, flags *flagSet, args []string) (int, error) {
	var words []string
	for _, c := range policyCommands() {
		word := strings.TrimPrefix(c.name, "policy ")
		if len(args) > 0 && args[0] == word {
			return c.run(p, ctx, newFlagSet(c), args[1:])
		}
		words = append(words, word)
	}
	if len(args) == 0 {
		return 0, fmt.Errorf("policy: want one of %s; sandboxd help policy says more", strings.Join(words, ", "))
	}
	if err := flags.parse(args); err != nil { // -h, or a flag before the word
		return 0, err
	}
	return 0, fmt.Errorf("policy: unknown word %q%s", args[0], hint(args[0], words, "sandboxd help policy"))
}

// bundle is what the arguments of a word name; dir is empty for the built-in one.
type bundle struct {
	files fs.FS
	dir   string
}

func (b bundle) String() string {
	if b.dir == "" {
		return "the built-in bundle"
	}
	return b.dir
}

// where is how editors and compilers write a place; nothing where the whole bundle is meant.
func (b bundle) where(file string, line int) string {
	switch {
	case file == "":
		return ""
	case line == 0:
		return filepath.Join(b.dir, file) + ": "
	}
	return fmt.Sprintf("%s:%d: ", filepath.Join(b.dir, file), line)
}

func openBundle(flags *flagSet, args []string) (bundle, error) {
	dirs, err := flags.parseAround(args)
	switch {
	case err != nil:
		return bundle{}, err
	case len(dirs) == 0:
		return bundle{files: rego.Bundle}, nil
	case len(dirs) > 1:
		return bundle{}, fmt.Errorf("%s: unexpected argument %q; want one DIR at most", flags.command.name, dirs[1])
	}
	files, err := engine.Files(dirs[0])
	if err != nil {
		return bundle{}, fmt.Errorf("%s: %w", flags.command.name, err)
	}
	return bundle{files, dirs[0]}, nil
}

// uncompiled adds to an error about a bundle who says more.
func uncompiled(flags *flagSet, b bundle, err error) error {
	return fmt.Errorf("%s: %s: %w; sandboxd policy check tells all of it", flags.command.name, b, err)
}

// question is a request to be judged offline, and who asks.
type question struct{ request, caller string }

func (q *question) register(flags *flagSet) {
	flags.StringVar(&q.request, "request", "", "the whole body of POST /v1/decide, as `JSON`, @FILE or a path; - is standard input")
	flags.StringVar(&q.caller, "caller", `{"uid":1000,"gid":1000,"via":"cli"}`, "who asks, as `JSON`, @FILE or a path")
}

func (q *question) read(p *program, flags *flagSet) (body []byte, caller policy.Caller, err error) {
	switch q.request {
	case "":
		return nil, caller, fmt.Errorf("%s: nothing to judge; give --request FILE, or - for standard input", flags.command.name)
	case "-":
		body, err = readAtMost("--request", p.stdin, specBytes)
	default:
		body, err = jsonOrFile("--request", q.request)
	}
	if err != nil {
		return nil, caller, err
	}
	if _, err := policy.ParseDecide(body); err != nil {
		return nil, caller, fmt.Errorf("--request: %w", err)
	}
	text, err := jsonOrFile("--caller", q.caller)
	if err != nil {
		return nil, caller, err
	}
	if caller, err = policy.ParseCaller(text); err != nil {
		return nil, caller, fmt.Errorf("--caller: %w", err)
	}
	return body, caller, nil
}

// judge makes an engine of a bundle for one question. Its tests don't run, so that a rule can be tried while they are still being written.
func (q *question) judge(ctx context.Context, p *program, flags *flagSet, args []string, ask func(*engine.Engine, []byte, policy.Caller) error) (err error) {
	q.register(flags)
	b, err := openBundle(flags, args)
	if err != nil {
		return err
	}
	body, caller, err := q.read(p, flags)
	if err != nil {
		return err
	}
	e, err := engine.Open(ctx, engine.Options{FS: b.files, Tested: true})
	if err != nil {
		return uncompiled(flags, b, err)
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	return ask(e, body, caller)
}
