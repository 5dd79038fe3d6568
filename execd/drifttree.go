package execd

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"

	"github.com/sandboxd/sandboxd/enforcer"
	"github.com/sandboxd/sandboxd/policy"
)

// mostMembers bounds how many processes of one exec are read in one look, 0.2 ms each. Of more, each look reads others.
const mostMembers = 256

// lookAtTree reads the processes of an exec besides its leader, and gives the rows of those that aren't confined as planned.
func (w *walk) lookAtTree() []policy.Row {
	members, err := w.child.Tree()
	if err != nil {
		return []policy.Row{unread(err)}
	}
	members = slices.DeleteFunc(members, func(pid int) bool { return pid == w.child.PID() })
	rand.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	for _, pid := range members[:min(len(members), mostMembers)] {
		if rows := w.lookAtMember(pid); len(rows) > 0 {
			return rows
		}
	}
	return nil
}

// lookAtMember reads one process by its number. If that is of the tree before and after, and of one and the same process, it was so in between.
func (w *walk) lookAtMember(pid int) []policy.Row {
	began, err := startTime(pid)
	if err != nil || !w.hasMember(pid) {
		return nil // it has ended; another look sees what took its number
	}
	state, err := w.observeProcess(pid)
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	var rows []policy.Row
	if err != nil {
		rows = []policy.Row{unread(err)}
	} else {
		verdict := enforcer.CheckMember(w.plan, w.child.Expect(), state)
		rows = verdict.Failed()
	}
	if len(rows) == 0 {
		return nil
	}
	if again, err := startTime(pid); err != nil || again != began || !w.hasMember(pid) || !w.child.Lives() && !w.child.Left() {
		return nil
	}
	for i := range rows {
		rows[i].Got += fmt.Sprintf(" (process %d)", pid)
	}
	return rows
}

func (w *walk) hasMember(pid int) bool {
	members, err := w.child.Tree()
	return err == nil && slices.Contains(members, pid)
}
