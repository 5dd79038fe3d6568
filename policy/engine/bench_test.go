package engine

import (
	"context"
	"strconv"
	"testing"

	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/rego"
)

// typical is what an agent's shell command looks like, about 2 KB with its environment.
func typical() policy.Request {
	env := map[string]string{}
	for i := range 20 {
		env["VARIABLE_"+strconv.Itoa(i)] = "some value of ordinary length, such as a path or a flag"
	}
	return policy.Request{
		Action: policy.ActionExec,
		Caller: policy.Caller{UID: 1000, GID: 1000, PID: 4711, Via: "socket"},
		SecurityContext: policy.SecurityContext{
			RunAsNonRoot: new(true), Capabilities: &policy.Capabilities{Drop: []string{"ALL"}},
			SeccompProfile: &policy.SeccompProfile{Type: policy.SeccompRuntimeDefault},
		},
		Command: policy.Command{
			Argv: []string{"/usr/bin/python3", "-c", "import json, sys\nprint(json.dumps({'answer': 42}))\n"},
			Env:  env, Cwd: "/work",
		},
		Limits: policy.Limits{TimeoutSeconds: 30, OutputBytes: 1 << 20},
	}
}

func open(tb testing.TB, o Options) *Engine {
	tb.Helper()
	e, err := Open(context.Background(), o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { e.Close() })
	return e
}

func BenchmarkDecideFresh(b *testing.B) {
	e := open(b, Options{FS: rego.Bundle})
	request := typical()
	i := 0
	for b.Loop() {
		// Another argument each time: never the same request again.
		request.Command.Argv[2] = strconv.Itoa(i)
		i++
		if decision := e.Decide(b.Context(), request); !decision.Allow {
			b.Fatal(decision.Reasons)
		}
	}
}

func BenchmarkDecideAgain(b *testing.B) {
	e := open(b, Options{FS: rego.Bundle})
	request := typical()
	for b.Loop() {
		if decision := e.Decide(b.Context(), request); !decision.Allow {
			b.Fatal(decision.Reasons)
		}
	}
}

func BenchmarkDecideDenied(b *testing.B) {
	e := open(b, Options{FS: rego.Bundle})
	request := typical()
	request.SecurityContext.Privileged = new(true)
	i := 0
	for b.Loop() {
		request.Command.Argv[2] = strconv.Itoa(i)
		i++
		if decision := e.Decide(b.Context(), request); decision.Allow {
			b.Fatal("allowed")
		}
	}
}

func BenchmarkLook(b *testing.B) {
	request := typical()
	for b.Loop() {
		look(request)
	}
}

func BenchmarkDocument(b *testing.B) {
	v := look(typical())
	for b.Loop() {
		document(v)
	}
}

func BenchmarkOpen(b *testing.B) {
	for b.Loop() {
		open(b, Options{FS: rego.Bundle})
	}
}
