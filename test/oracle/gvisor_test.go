package oracle

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"gvisor.dev/gvisor/pkg/abi/linux"
	"gvisor.dev/gvisor/pkg/bpf"
	gvisor "gvisor.dev/gvisor/pkg/seccomp"

	"github.com/sandboxd/sandboxd/enforcer/seccomp"
)

// byGVisor compiles a profile by gVisor, which knows the architecture that it is built for only. Its rule sets are looked at in order, so the
// strictest comes first.
func byGVisor(t *testing.T, p seccomp.Profile, arch string, optimize bool) []bpf.Instruction {
	t.Helper()
	sets := map[seccomp.Action]gvisor.SyscallRules{}
	for _, r := range p.Rules {
		rule := gvisor.SyscallRule(gvisor.MatchAll{})
		if len(r.Tests) > 0 {
			var arguments gvisor.PerArg
			for i := range arguments {
				arguments[i] = gvisor.AnyValue{}
			}
			for _, test := range r.Tests {
				arguments[test.Arg] = matcher(test)
			}
			rule = arguments
		}
		if _, ok := sets[r.Action]; !ok {
			sets[r.Action] = gvisor.NewSyscallRules()
		}
		for _, name := range r.Calls {
			if n, ok := seccomp.Number(arch, name); ok {
				sets[r.Action].Add(uintptr(n), rule)
			}
		}
	}
	program := gvisor.Program{Options: gvisor.ProgramOptions{DefaultAction: gvisorAction(p.Default), BadArchAction: gvisor.KillProcess, SkipOptimizations: !optimize}}
	for action, rules := range sets {
		program.RuleSets = append(program.RuleSets, gvisor.RuleSet{Action: gvisorAction(action), Rules: rules})
	}
	order := func(s gvisor.RuleSet) int {
		for action := range sets {
			if gvisorAction(action) == s.Action {
				return int(int32(action))
			}
		}
		panic("an action that isn't there")
	}
	slices.SortFunc(program.RuleSets, func(a, b gvisor.RuleSet) int { return cmp.Compare(order(a), order(b)) })
	instructions, _, err := program.Build()
	if err != nil {
		t.Fatal(err)
	}
	return instructions
}

func matcher(t seccomp.Test) gvisor.ValueMatcher {
	v := uintptr(t.Value)
	switch {
	case t.Mask != 1<<64-1:
		return gvisor.MaskedEqual(uintptr(t.Mask), v)
	case t.Op == seccomp.Equal:
		return gvisor.EqualTo(v)
	case t.Op == seccomp.NotEqual:
		return gvisor.NotEqual(v)
	case t.Op == seccomp.Less:
		return gvisor.LessThan(v)
	case t.Op == seccomp.LessEqual:
		return gvisor.LessThanOrEqual(v)
	case t.Op == seccomp.Greater:
		return gvisor.GreaterThan(v)
	}
	return gvisor.GreaterThanOrEqual(v)
}

func gvisorAction(a seccomp.Action) gvisor.Action {
	switch a &^ 0xffff {
	case seccomp.KillProcess:
		return gvisor.KillProcess
	case seccomp.KillThread:
		return gvisor.KillThread
	case seccomp.Trap:
		return gvisor.Trap
	case seccomp.Allow:
		return gvisor.Allow
	case seccomp.Errno(0):
		return gvisor.ReturnError.Code(uint16(a))
	}
	return gvisor.Trace.Code(uint16(a))
}

// ours turns gVisor's instructions into a program of ours, so that one simulator runs both.
func ours(instructions []bpf.Instruction) seccomp.Program {
	var p seccomp.Program
	for _, in := range instructions {
		p = append(p, seccomp.Instruction{Code: in.OpCode, JT: in.JumpIfTrue, JF: in.JumpIfFalse, K: in.K})
	}
	return p
}

// interpreted runs a program in gVisor's interpreter: the oracle of our simulator.
func interpreted(t *testing.T, p seccomp.Program, c call) uint32 {
	t.Helper()
	var instructions []bpf.Instruction
	for _, in := range p {
		instructions = append(instructions, bpf.RawInstruction(in.Code, in.JT, in.JF, in.K))
	}
	compiled, err := bpf.Compile(instructions, false)
	if err != nil {
		t.Fatal(err)
	}
	data := linux.SeccompData{Nr: int32(c.nr), Arch: c.arch, Args: c.args}
	answer, err := bpf.Exec[bpf.NativeEndian](compiled, gvisor.DataAsBPFInput(&data, make([]byte, data.SizeBytes())))
	if err != nil {
		t.Fatal(fmt.Errorf("%+v: %w", c, err))
	}
	return answer
}
