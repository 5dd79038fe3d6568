package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/enforcer"
)

// The test program has one mode more than the real one: it says who it is.
func init() {
	modes["own-test"] = func(args []string) int {
		data, err := os.ReadFile("/work/sandboxd-runner")
		fmt.Println(os.Getpid() != 1, strings.Join(args, ","), len(data), err != nil)
		if len(args) > 0 && args[0] == "wait" {
			time.Sleep(time.Hour)
		}
		return 7
	}
}

func ownInvocation(args ...string) enforcer.Invocation {
	return enforcer.Invocation{Argv: append([]string{Name, "own-test"}, args...), Env: []string{"PATH=/work:/tmp"}, Cwd: "/work", Own: true}
}

// Our own binary runs under the plan of any exec, wherever PATH leads.
func TestOwn(t *testing.T) {
	both(t, func(t *testing.T) {
		s := startSandbox(t, testConfig(t))
		if got := run(t, s, testInvocation("printf '#!/bin/sh\necho stranger' > /work/sandboxd-runner; chmod 755 /work/sandboxd-runner; cd /work && ./sandboxd-runner"), IO{}); string(got.Stdout.Data) != "stranger\n" {
			t.Fatalf("%+v", got)
		}
		got := run(t, s, ownInvocation("a", "b c"), IO{})
		if !got.Known || got.Status.ExitStatus() != 7 || string(got.Stdout.Data) != "true a,b c 23 false\n" || !got.TreeEmpty {
			t.Errorf("%+v: %s%s", got, got.Stdout.Data, got.Stderr.Data)
		}
	})
}

// The daemon reads it back at the gate and after execve, where it must be our binary and nothing else.
func TestOwnReadBack(t *testing.T) {
	s, host, plan := realSandbox(t, 1)
	c := prepared(t, s, plan, ownInvocation("wait"))
	state, err := enforcer.Observe(c.PID(), host)
	if err != nil {
		t.Fatal(err)
	}
	wantHeld(t, "at the gate", enforcer.Check(plan, c.Expect(), state))
	if e := c.Expect(); !e.Own || !strings.Contains(e.Target, "memfd:"+Name) {
		t.Errorf("%+v", e)
	}
	if err := errors.Join(c.Release(), c.Started(context.Background())); err != nil {
		t.Fatal(err)
	}
	if state, err = enforcer.ObserveStarted(c.PID(), host); err != nil {
		t.Fatal(err)
	}
	wantHeld(t, "after execve", enforcer.CheckStarted(plan, c.Expect(), state))
	stranger := c.Expect()
	stranger.Own = false
	if v := enforcer.CheckStarted(plan, stranger, state); v.Held() {
		t.Error("a target that isn't to be our binary, and is, holds")
	}
	c.Kill()
	if exit := c.Wait(context.Background()); !exit.TreeEmpty {
		t.Errorf("%+v", exit)
	}
}

// What isn't a mode of our binary is a mistake found before anything starts: launcher and worker above all, which aren't targets.
func TestOwnModes(t *testing.T) {
	for _, argv := range [][]string{{Name}, {Name, "worker"}, {Name, "launcher"}, {Name, "serve"}, {Name, "nonsense"}, {"sh", "own-test"}} {
		if _, err := Steps(outsidePlan(), enforcer.Invocation{Argv: argv, Cwd: "/", Own: true}, 0); !errors.Is(err, ErrTable) {
			t.Errorf("%q: %v", argv, err)
		}
	}
}
