package enforcer

import (
	"errors"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/policy"
)

// A child at its gate has the terminal that was made for it, and no other; one that shall have none has none.
func TestCheckTerminal(t *testing.T) {
	made := Terminal{Number: 136 << 8, File: "0:87:3"}
	for name, row := range map[string]struct {
		planned   bool
		want, got Terminal
		held      bool
	}{
		"its own":           {true, made, made, true},
		"none":              {true, made, Terminal{}, false},
		"another number":    {true, made, Terminal{136<<8 | 1, made.File}, false},
		"another instance":  {true, made, Terminal{made.Number, "0:88:3"}, false},
		"unknown":           {true, Terminal{}, Terminal{}, false},
		"without a file":    {true, Terminal{Number: made.Number}, Terminal{Number: made.Number}, false},
		"not planned":       {false, Terminal{}, made, false},
		"none, as planned":  {false, Terminal{}, Terminal{}, true},
		"a number too many": {false, Terminal{}, Terminal{Number: 1}, false},
	} {
		table := &table{}
		table.terminal(Plan{Terminal: row.planned}, Expect{Terminal: row.want}, State{Terminal: row.got})
		if v := (policy.Verdict{Rows: append(table.rows, policy.Row{Control: "x", Held: true})}); v.Held() != row.held {
			t.Errorf("%s: %+v", name, v.Rows)
		}
	}
	opaque := &table{}
	opaque.terminal(Plan{Terminal: true}, Expect{Terminal: made, StepsPlanned: 1, StepsWalked: 1}, State{Opaque: true, Terminal: Terminal{Number: made.Number}})
	if len(opaque.rows) != 2 || opaque.rows[0].Evidence != policy.EvidenceKernel || opaque.rows[1].Evidence != policy.EvidenceReport {
		t.Errorf("%+v", opaque.rows)
	}
}

// A number is packed as the kernel does it.
func TestTerminalNumber(t *testing.T) {
	for _, device := range [][2]uint32{{136, 0}, {136, 255}, {137, 3}, {136, 4097}, {4, 64}} {
		number := NumberOf(unix.Mkdev(device[0], device[1]))
		if got := (Terminal{Number: number}).device(); got != list([]int{int(device[0])})+":"+list([]int{int(device[1])}) {
			t.Errorf("%v: %d, %s", device, number, got)
		}
	}
}

// Where there is no place for a terminal of one's own it is refused by name, unless that is accepted, and then told.
func TestAtTerminal(t *testing.T) {
	h := fixedHost()
	plan, err := Build(fixedDecision(), h, fixedSandbox(), Profiles{})
	if err != nil {
		t.Fatal(err)
	}
	at, err := plan.AtTerminal(h, nil)
	if err != nil || !at.Terminal || at.Digest() == plan.Digest() || at.ConfinementDigest() != plan.ConfinementDigest() {
		t.Errorf("%v, %+v", err, at.Terminal)
	}
	h.Terminals = false
	var refused *RefusedError
	if _, err := plan.AtTerminal(h, []string{"cgroup.memory"}); !errors.As(err, &refused) || refused.Lack != terminalPrivate || refused.Field != "command.terminal" {
		t.Errorf("%v", err)
	}
	if at, err = plan.AtTerminal(h, []string{terminalPrivate}); err != nil || !at.Terminal || len(at.Degraded) != len(plan.Degraded)+1 || slices.Equal(at.Degraded, plan.Degraded) {
		t.Errorf("%v, %v", err, at.Degraded)
	}
}
