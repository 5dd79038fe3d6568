package execd

import (
	"maps"
	"os"
	"slices"

	"github.com/sandboxd/sandboxd/enforcer"
	"github.com/sandboxd/sandboxd/policy"
)

// workDir is where a command starts unless it says otherwise, and its home.
const workDir = "/work"

// safeEnv is what every child has unless the request says otherwise. Nothing of our own environment is passed on.
var safeEnv = map[string]string{
	"PATH":   "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
	"HOME":   workDir,
	"LANG":   "C.UTF-8",
	"TMPDIR": "/tmp",
}

// pythonEnv is what a run of Python has besides: matplotlib draws into files, and has its cache where it may write.
var pythonEnv = map[string]string{
	"MPLBACKEND":   "Agg",
	"MPLCONFIGDIR": workDir + "/.matplotlib",
}

// program is what a request executes: the invocation, and the descriptors that go with it.
type program struct {
	enforcer.Invocation
	stdin []byte
	// extra are the child's from 3; channel is our end of a run's result channel and value what comes out of it, nil for an exec.
	extra   []*os.File
	channel *os.File
	value   *result
	// language is a run's.
	language string
	// job is our end of the pipe that the job comes by, to an interpreter that was started ahead or for inputs that are too long for memory; nil for a job
	// that the child has already. handing ends when it is written, or isn't any more.
	job     *os.File
	handing chan struct{}
}

// newProgram makes an invocation of the request.
func (w *walk) newProgram() (*program, error) {
	switch {
	case w.ahead != nil:
		return w.aheadProgram()
	case w.waiter != nil:
		return w.warmProgram(), nil
	case w.options.context != nil:
		return w.keptProgram()
	}
	r := w.request
	switch r.Action {
	case policy.ActionRun:
		return runProgram(r.Program, w.limit(), w.service.driver.get)
	case policy.ActionFile:
		return fileProgram(r.File, w.box.Plan(), w.decision.Effective.Limits, w.options.transfer)
	}
	made := &program{stdin: r.Command.Stdin}
	made.Argv, made.Env, made.Cwd = r.Command.Argv, environment(r.Command.Env), directory(r.Command.Cwd)
	if w.options.Aside != nil {
		made.extra, made.Extra = []*os.File{w.options.Aside}, 1
	}
	return made, nil
}

// handed says that the child has its descriptors, and begins to read its value. Our copies are closed: the channel ends when the child's do.
func (p *program) handed(most mostValue) {
	p.closeExtra()
	if p.channel != nil {
		p.value = readResult(p.language, p.channel, most)
		p.channel = nil
	}
}

// hand writes the job for as long as the child reads it. It is no error when that ends early: what came of it is for the wait to say.
func (p *program) hand(write func(job *os.File) error) {
	p.handing = make(chan struct{})
	go func() {
		defer close(p.handing)
		_ = write(p.job)
	}()
}

// close closes what is ours of it.
func (p *program) close() {
	p.closeExtra()
	if p.job != nil {
		p.job.Close()
		if p.handing != nil {
			<-p.handing
		}
	}
	switch {
	case p.value != nil:
		p.value.close()
	case p.channel != nil:
		p.channel.Close()
	}
}

func (p *program) closeExtra() {
	for _, file := range p.extra {
		file.Close()
	}
	p.extra = nil
}

// firstExtra is the number of the first granted descriptor after the standard ones.
const firstExtra = 3

// runEnvironment is that of a run.
func runEnvironment(language string, asked map[string]string) []string {
	if language != policy.LanguagePython {
		return environment(asked)
	}
	env := maps.Clone(pythonEnv)
	maps.Copy(env, asked)
	return environment(env)
}

func environment(asked map[string]string) []string {
	env := maps.Clone(safeEnv)
	maps.Copy(env, asked)
	list := make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		list = append(list, name+"="+env[name])
	}
	return list
}

func directory(cwd string) string {
	if cwd == "" {
		return workDir
	}
	return cwd
}
