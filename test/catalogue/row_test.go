package catalogue

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// row is one thing that is tried in a sandbox of the real daemon, with everything that must come of it. Its four sides are what the program
// meets, the reply, the audit record and the read-back; what a row doesn't say is that the program ends with status 0, is on record with
// a release and an outcome that agree with the reply, and that every control is read back and holds.
type row struct {
	// id is that of the list of scenarios. Rows of one id are neighbours: the same kind, another way.
	id string
	// what a person would say is tried.
	what string

	// try has acts of the probe, one a line, each with the answer that it must get: "socket vsock → EAFNOSUPPORT", "memfd → done". Several
	// answers are joined by "or". "(user: EPERM)" after it is the answer in the second place, where sandboxd runs as an ordinary user, and "(pod: EPERM)"
	// that in a pod where all share the runner's container.
	// SHOW, SIBLING, HOST, SOCKET and ABSTRACT stand for what the fixture has.
	try string
	// run is the command in place of try, when its end is what counts; a word PROBE is the probe. code is a Python program in its place.
	run  []string
	code string
	// body has more members of the request's body, with more of the command in it. raw is a whole body of which nothing else is made.
	body, with, raw string
	// daemon is whom to ask: the standard one, or "strict output", whose policy kills for too much output.
	daemon string
	// beside lets it run in the sandbox where the sibling runs.
	beside bool

	// outcome is the reply's, with exit status, signal or errno: "error 137", "signaled 11", "not_started ENOENT", "denied securityContext.privileged"
	// (the field of a reason), "refused command.argv" (a request that isn't one: 400, on no record). Empty: "ok".
	outcome string
	// stdout and stderr must be in the stream; with "!" before it, must not.
	stdout, stderr string
	// value is the returned value, or "failed" or "absent" and a word of the reason.
	value string
	// readBack are controls that must be among the verdict's rows, besides that all hold.
	readBack string
	// also checks what the rest can't say.
	also func(t *testing.T, a *answer)

	// needs is what this kernel must have for the row to say anything; without it the row is skipped, by that name.
	needs []feature
	// lack is a mechanism (sandboxd doctor) without which the request must be denied by its name: refused as unsupported.
	lack string
	// user is what becomes of the row in the second place, when it isn't the same: "not offered: " and why.
	user string
	// pod is the same for a pod where all share the runner's container, or "outcome " or "stderr " and what it is there; "image: " and what the test's
	// image hasn't leaves it out of every pod.
	pod string
}

// attempt is one line of a row's try.
type attempt struct {
	act  []string
	want []string
}

// attempts reads the lines of try.
func (r row) attempts(f *fixture) []attempt {
	var list []attempt
	for line := range strings.Lines(r.try) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		act, want, found := strings.Cut(line, "→")
		if !found {
			panic(fmt.Sprintf("%s %s: no answer in %q", r.id, r.what, line))
		}
		want, others, _ := strings.Cut(want, "(")
		for _, other := range strings.Split(others, "(") {
			place, answer, _ := strings.Cut(other, ": ")
			if place == "user" && os.Geteuid() != 0 || place == "pod" && f.pod.shared() {
				want = strings.TrimSuffix(strings.TrimSpace(answer), ")")
			}
		}
		list = append(list, attempt{strings.Fields(f.fill(act)), strings.Split(strings.TrimSpace(want), " or ")})
	}
	return list
}

// command is what the row runs.
func (r row) command(f *fixture) []string {
	if r.try == "" {
		command := slices.Clone(r.run)
		for i := range command {
			command[i] = f.fill(command[i])
		}
		return command
	}
	command := []string{f.probe, "each"}
	for i, one := range r.attempts(f) {
		if i > 0 {
			command = append(command, "--")
		}
		command = append(command, one.act...)
	}
	return command
}

// name is the row's in the run.
func (r row) name() string { return r.id + " " + r.what }

// rows is the whole table.
func rows() []row {
	return slices.Concat(kernelRows, privilegeRows, secondLookRows, lifeRows, startRows, outputRows, resultRows, requestRows, fileRows)
}
