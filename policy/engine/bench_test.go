package engine

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/sandboxd/sandboxd/rego"
)

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

// BenchmarkDecide76Rules has 76 rules of the usual kinds, all of which are looked at.
func BenchmarkDecide76Rules(b *testing.B) {
	files := tiny("not input.securityContext.privileged")
	var module strings.Builder
	module.WriteString("package sandboxd\n")
	for i := range 76 {
		condition := []string{
			"input.limits.pids > 100%d", `input.command.argv[0] == "/usr/bin/forbidden%d"`, `"VAR%d" in input.command.envNames`,
			`startswith(input.command.cwd, "/home%d")`,
		}[i%4]
		fmt.Fprintf(&module, "\nreasons contains {\"rule\": \"generated.%d\", \"message\": \"No.\"} if "+condition+"\n", i, i)
	}
	files["generated.rego"] = &fstest.MapFile{Data: []byte(module.String())}
	e := open(b, Options{FS: files})
	request := typical()
	i := 0
	for b.Loop() {
		request.Command.Argv[2] = strconv.Itoa(i)
		i++
		if decision := e.Decide(b.Context(), request); !decision.Allow {
			b.Fatal(decision.Reasons)
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

func BenchmarkOpenTested(b *testing.B) {
	for b.Loop() {
		open(b, Options{FS: rego.Bundle, Tested: true})
	}
}
