package engine

import (
	"strconv"
	"testing"

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
