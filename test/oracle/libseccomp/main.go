// Libseccomp compiles a profile as a container runtime would: by libseccomp.
package main

import (
	"encoding/json/v2"
	"fmt"
	"os"
	"slices"

	libseccomp "github.com/seccomp/libseccomp-golang"

	"github.com/sandboxd/sandboxd/enforcer/seccomp"
	"github.com/sandboxd/sandboxd/test/oracle"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	var q oracle.Question
	if err := json.UnmarshalRead(os.Stdin, &q); err != nil {
		return err
	}
	arch, ok := map[string]libseccomp.ScmpArch{"amd64": libseccomp.ArchAMD64, "arm64": libseccomp.ArchARM64}[q.Arch]
	if !ok {
		return fmt.Errorf("architecture %q", q.Arch)
	}
	answer := oracle.Answer{Numbers: map[string]int{}}
	for _, name := range q.Names {
		if n, err := libseccomp.GetSyscallFromNameByArch(name, arch); err == nil && n >= 0 {
			answer.Numbers[name] = int(n)
		}
	}
	var err error
	if answer.Program, answer.Unknown, err = compile(q, arch); err != nil {
		return err
	}
	return json.MarshalWrite(os.Stdout, answer)
}

func compile(q oracle.Question, arch libseccomp.ScmpArch) (seccomp.Program, []string, error) {
	f, err := libseccomp.NewFilter(action(q.Profile.Default))
	if err != nil {
		return nil, nil, fmt.Errorf("NewFilter: %w", err)
	}
	defer f.Release()
	if err := f.SetBadArchAction(libseccomp.ActKillProcess); err != nil {
		return nil, nil, fmt.Errorf("SetBadArchAction: %w", err)
	}
	if q.Tree {
		if err := f.SetOptimize(2); err != nil {
			return nil, nil, fmt.Errorf("SetOptimize: %w", err)
		}
	}
	if native, err := libseccomp.GetNativeArch(); err != nil {
		return nil, nil, err
	} else if native != arch {
		if err := f.AddArch(arch); err != nil {
			return nil, nil, fmt.Errorf("AddArch: %w", err)
		}
		if err := f.RemoveArch(native); err != nil {
			return nil, nil, fmt.Errorf("RemoveArch: %w", err)
		}
	}
	var unknown []string
	for _, r := range q.Profile.Rules {
		if r.Action == q.Profile.Default {
			continue // libseccomp refuses such a rule and runtimes leave it out
		}
		for _, name := range r.Calls {
			if _, ours := seccomp.Number(q.Arch, name); !ours {
				continue // a call of other architectures
			}
			if n, err := libseccomp.GetSyscallFromNameByArch(name, arch); err != nil || n < 0 {
				unknown = append(unknown, name)
				continue
			}
			n, err := libseccomp.GetSyscallFromName(name) // rules take native numbers, or negative stand-ins for what isn't native
			if err != nil {
				unknown = append(unknown, name)
				continue
			}
			if err := add(f, n, r); err != nil {
				return nil, nil, fmt.Errorf("rule for %s: %w", name, err)
			}
		}
	}
	rows, err := f.ExportBPFMem()
	if err != nil {
		if rows, err = throughFile(f); err != nil {
			return nil, nil, fmt.Errorf("ExportBPF: %w", err)
		}
	}
	slices.Sort(unknown)
	program, err := seccomp.FromBytes(rows)
	return program, slices.Compact(unknown), err
}

// throughFile is for libseccomp before 2.6, which only exports to files.
func throughFile(f *libseccomp.ScmpFilter) ([]byte, error) {
	file, err := os.CreateTemp("", "bpf")
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close(); _ = os.Remove(file.Name()) }()
	if err := f.ExportBPF(file); err != nil {
		return nil, err
	}
	return os.ReadFile(file.Name())
}

func add(f *libseccomp.ScmpFilter, call libseccomp.ScmpSyscall, r seccomp.Rule) error {
	if len(r.Tests) == 0 {
		return f.AddRule(call, action(r.Action))
	}
	var conditions []libseccomp.ScmpCondition
	for _, t := range r.Tests {
		op := map[seccomp.Op]libseccomp.ScmpCompareOp{
			seccomp.Equal: libseccomp.CompareEqual, seccomp.NotEqual: libseccomp.CompareNotEqual, seccomp.Less: libseccomp.CompareLess,
			seccomp.LessEqual: libseccomp.CompareLessOrEqual, seccomp.Greater: libseccomp.CompareGreater, seccomp.GreaterEqual: libseccomp.CompareGreaterEqual,
		}[t.Op]
		values := []uint64{t.Value}
		if t.Mask != 1<<64-1 {
			if t.Op != seccomp.Equal {
				return fmt.Errorf("libseccomp masks only for equality")
			}
			op, values = libseccomp.CompareMaskedEqual, []uint64{t.Mask, t.Value}
		}
		c, err := libseccomp.MakeCondition(uint(t.Arg), op, values...)
		if err != nil {
			return err
		}
		conditions = append(conditions, c)
	}
	return f.AddRuleConditional(call, action(r.Action), conditions)
}

func action(a seccomp.Action) libseccomp.ScmpAction {
	data := int16(a & 0xffff)
	switch a &^ 0xffff {
	case seccomp.KillProcess:
		return libseccomp.ActKillProcess
	case seccomp.KillThread:
		return libseccomp.ActKillThread
	case seccomp.Trap:
		return libseccomp.ActTrap
	case seccomp.Log:
		return libseccomp.ActLog
	case seccomp.Allow:
		return libseccomp.ActAllow
	case seccomp.Errno(0):
		return libseccomp.ActErrno.SetReturnCode(data)
	}
	return libseccomp.ActTrace.SetReturnCode(data)
}
