package seccomp

import (
	"encoding/json"
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	moby "github.com/moby/profiles/seccomp"
)

func TestParseProfile(t *testing.T) {
	const text = `{
		"defaultAction": "SCMP_ACT_ERRNO", "defaultErrnoRet": 38, "architectures": ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86"], "flags": [],
		"syscalls": [
			{"names": ["read", "write"], "action": "SCMP_ACT_ALLOW", "args": null, "comment": "words", "includes": {}, "excludes": {}},
			{"name": "clone", "action": "SCMP_ACT_ALLOW", "args": [{"index": 0, "value": 2114060288, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"}],
			 "includes": {"arches": ["amd64"], "minKernel": "4.8"}, "excludes": {"caps": ["CAP_SYS_ADMIN"]}},
			{"names": ["socket"], "action": "SCMP_ACT_ERRNO", "args": [
				{"index": 0, "value": 18446744073709551615, "op": "SCMP_CMP_EQ"}, {"index": 1, "value": 1, "op": "SCMP_CMP_NE"}, {"index": 2, "value": 2, "op": "SCMP_CMP_LT"},
				{"index": 3, "value": 3, "op": "SCMP_CMP_LE"}, {"index": 4, "value": 4, "op": "SCMP_CMP_GT"}, {"index": 5, "value": 5, "op": "SCMP_CMP_GE"}]},
			{"names": ["mount"], "action": "SCMP_ACT_TRACE", "errnoRet": 7},
			{"names": ["acct"], "action": "SCMP_ACT_KILL"}, {"names": ["reboot"], "action": "SCMP_ACT_KILL_PROCESS"}, {"names": ["bpf"], "action": "SCMP_ACT_KILL_THREAD"},
			{"names": ["swapon"], "action": "SCMP_ACT_TRAP"}, {"names": ["getpid"], "action": "SCMP_ACT_LOG"}
		]}`
	const all = 1<<64 - 1
	want := Profile{Default: Errno(38), Rules: []Rule{
		{Calls: []string{"read", "write"}, Action: Allow},
		{
			Calls: []string{"clone"}, Action: Allow, Tests: []Test{{Op: Equal, Mask: 0x7e020000}},
			Includes: Condition{Arches: []string{"amd64"}, MinKernel: "4.8"}, Excludes: Condition{Caps: []string{"CAP_SYS_ADMIN"}},
		},
		{Calls: []string{"socket"}, Action: Errno(syscall.EPERM), Tests: []Test{
			{0, Equal, all, all}, {1, NotEqual, all, 1}, {2, Less, all, 2}, {3, LessEqual, all, 3}, {4, Greater, all, 4}, {5, GreaterEqual, all, 5},
		}},
		{Calls: []string{"mount"}, Action: 0x7ff00007},
		{Calls: []string{"acct"}, Action: KillThread}, {Calls: []string{"reboot"}, Action: KillProcess}, {Calls: []string{"bpf"}, Action: KillThread},
		{Calls: []string{"swapon"}, Action: Trap}, {Calls: []string{"getpid"}, Action: Log},
	}}
	got, err := ParseProfile([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
}

func TestParseProfileRefuses(t *testing.T) {
	rule := func(s string) string { return `{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[` + s + `]}` }
	arg := func(s string) string { return rule(`{"names":["read"],"action":"SCMP_ACT_TRAP","args":[` + s + `]}`) }
	for _, c := range []struct{ text, field, nearest string }{
		{``, "", ""},
		{`[]`, "", ""},
		{`{} {}`, "", ""},
		{`{}`, "defaultAction", ""},
		{`{"defaultAction":null}`, "defaultAction", ""},
		{`{"defaultAction":"SCMP_ACT_ALOW"}`, "defaultAction", "SCMP_ACT_ALLOW"},
		{`{"defaultAction":"scmp_act_allow"}`, "defaultAction", ""},
		{`{"defaultAction":"SCMP_ACT_NOTIFY"}`, "defaultAction", ""},
		{`{"defaultAction":3}`, "defaultAction", ""},
		{`{"DefaultAction":"SCMP_ACT_ALLOW"}`, "DefaultAction", "defaultAction"},
		{`{"defaultAction":"SCMP_ACT_ALLOW","defaultAction":"SCMP_ACT_KILL"}`, "defaultAction", ""},
		{`{"defaultAction":"SCMP_ACT_ALLOW","defaultErrnoRet":1}`, "defaultErrnoRet", ""},
		{`{"defaultAction":"SCMP_ACT_ERRNO","defaultErrnoRet":4096}`, "defaultErrnoRet", ""},
		{`{"defaultAction":"SCMP_ACT_ERRNO","defaultErrnoRet":-1}`, "defaultErrnoRet", ""},
		{`{"defaultAction":"SCMP_ACT_ALLOW","syscals":[]}`, "syscals", "syscalls"},
		{`{"defaultAction":"SCMP_ACT_ALLOW","flags":["SECCOMP_FILTER_FLAG_SPEC_ALLOW"]}`, "flags", ""},
		{`{"defaultAction":"SCMP_ACT_ALLOW","listenerPath":"/x"}`, "listenerPath", ""},
		{`{"defaultAction":"SCMP_ACT_ALLOW","architectures":["SCMP_ARCH_X68_64"]}`, "architectures", "SCMP_ARCH_X86_64"},
		{`{"defaultAction":"SCMP_ACT_ALLOW","architectures":["SCMP_ARCH_X86"],"archMap":[{"architecture":"SCMP_ARCH_X86"}]}`, "archMap", ""},
		{rule(`{"names":["read"]}`), "syscalls[0].action", ""},
		{rule(`{"names":[],"action":"SCMP_ACT_TRAP"}`), "syscalls[0].names", ""},
		{rule(`{"name":"read","names":["write"],"action":"SCMP_ACT_TRAP"}`), "syscalls[0].name", ""},
		{rule(`{"names":["read","opne"],"action":"SCMP_ACT_TRAP"}`), "syscalls[0].names[1]", "open"},
		{rule(`{"names":["Read"],"action":"SCMP_ACT_TRAP"}`), "syscalls[0].names[0]", "read"},
		{rule(`{"names":["read"],"action":"SCMP_ACT_TRAP","errnoRet":1}`), "syscalls[0].errnoRet", ""},
		{rule(`{"names":["read"],"action":"SCMP_ACT_TRAP","errno":"EPERM"}`), "syscalls[0].errno", "errnoRet"},
		{rule(`{"names":["read"],"action":"SCMP_ACT_TRAP","includes":{"cap":["CAP_SYS_ADMIN"]}}`), "syscalls[0].includes.cap", "caps"},
		{rule(`{"names":["read"],"action":"SCMP_ACT_TRAP","includes":{"caps":["SYS_ADMIN"]}}`), "syscalls[0].includes.caps", ""},
		{rule(`{"names":["read"],"action":"SCMP_ACT_TRAP","excludes":{"arches":["x86_64"]}}`), "syscalls[0].excludes.arches", "x86"},
		{rule(`{"names":["read"],"action":"SCMP_ACT_TRAP","excludes":{"minKernel":"4"}}`), "syscalls[0].excludes.minKernel", ""},
		{arg(`{"index":6,"value":1,"op":"SCMP_CMP_EQ"}`), "syscalls[0].args[0].index", ""},
		{arg(`{"value":1,"op":"SCMP_CMP_EQ"}`), "syscalls[0].args[0].index", ""},
		{arg(`{"index":1,"op":"SCMP_CMP_EQ"}`), "syscalls[0].args[0].value", ""},
		{arg(`{"index":1,"value":1}`), "syscalls[0].args[0].op", ""},
		{arg(`{"index":1,"value":1,"op":"SCMP_CMP_EG"}`), "syscalls[0].args[0].op", "SCMP_CMP_EQ"},
		{arg(`{"index":1,"value":18446744073709551616,"op":"SCMP_CMP_EQ"}`), "syscalls[0].args[0].value", ""},
		{arg(`{"index":1,"value":-1,"op":"SCMP_CMP_EQ"}`), "syscalls[0].args[0].value", ""},
		{arg(`{"index":1,"value":1,"op":"SCMP_CMP_GE"},{"index":1,"value":9,"op":"SCMP_CMP_LE"}`), "syscalls[0].args[1].index", ""},
		{strings.Repeat(" ", maxProfileBytes+1), "", ""},
	} {
		_, err := ParseProfile([]byte(c.text))
		var p *ProfileError
		if !errors.As(err, &p) {
			t.Errorf("%.200s: got %v, want a ProfileError", c.text, err)
			continue
		}
		if p.Field != c.field || c.nearest != "" && p.Nearest != c.nearest {
			t.Errorf("%.200s: got %q nearest %q (%v), want %q nearest %q", c.text, p.Field, p.Nearest, err, c.field, c.nearest)
		}
	}
}

// TestDefaultIsMobys: the copy is what the module of go.mod says; if not, run go generate.
func TestDefaultIsMobys(t *testing.T) {
	data, err := json.Marshal(moby.DefaultProfile())
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := ParseProfile(data)
	if err != nil {
		t.Fatal(err)
	}
	mine, err := ParseProfile([]byte(defaultJSON))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(theirs, mine); diff != "" {
		t.Error(diff)
	}
}

// TestRuntimeDefault: what the profile's own comments promise, on both architectures.
func TestRuntimeDefault(t *testing.T) {
	for _, m := range machines {
		p := mustDefault(t, m.goarch)
		program, err := CompileBare(p, m.goarch)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			call string
			args [6]uint64
			want Action
		}{
			{"read", [6]uint64{}, Allow},
			{"ptrace", [6]uint64{}, Allow}, // since kernel 4.8
			{"socket", [6]uint64{2}, Allow},
			{"socket", [6]uint64{40}, Errno(syscall.EPERM)},
			{"personality", [6]uint64{0x20008}, Allow},
			{"personality", [6]uint64{0x40000}, Errno(syscall.EPERM)},
			{"clone", [6]uint64{0x11}, Allow},
			{"clone", [6]uint64{newUser}, Errno(syscall.EPERM)},
			{"clone3", [6]uint64{}, Errno(syscall.ENOSYS)},
			{"mount", [6]uint64{}, Errno(syscall.EPERM)},
			{"listns", [6]uint64{}, Errno(syscall.ENOSYS)}, // newer than the profile
		} {
			if got := Action(program.Run(m.audit, number(t, m.goarch, c.call), c.args)); got != c.want {
				t.Errorf("%s: %s%x: got %v, want %v", m.goarch, c.call, c.args, got, c.want)
			}
		}
	}
	for _, bad := range [][2]string{{"riscv64", kernel}, {"amd64", ""}, {"amd64", "linux"}} {
		if _, err := RuntimeDefault(bad[0], bad[1]); err == nil {
			t.Errorf("RuntimeDefault(%q, %q): no error", bad[0], bad[1])
		}
	}
}

// FuzzParseProfile: whatever parses compiles or says why, and what compiles means what a naive reading says.
func FuzzParseProfile(f *testing.F) {
	f.Add([]byte(`{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[{"names":["socket"],"action":"SCMP_ACT_ERRNO","args":[{"index":0,"value":40,"op":"SCMP_CMP_EQ"}]}]}`), uint64(40))
	f.Add([]byte(`{"defaultAction":"SCMP_ACT_ERRNO","archMap":[{"architecture":"SCMP_ARCH_X86_64","subArchitectures":null}],"syscalls":[{"names":["clone"],"action":"SCMP_ACT_ALLOW","args":[{"index":0,"value":2114060288,"valueTwo":0,"op":"SCMP_CMP_MASKED_EQ"}],"excludes":{"caps":["CAP_SYS_ADMIN"],"minKernel":"4.8"}}]}`), uint64(1<<32))
	f.Fuzz(func(t *testing.T, data []byte, argument uint64) {
		p, err := ParseProfile(data)
		if err != nil {
			return
		}
		p.Kernel = kernel
		args := [6]uint64{argument, argument, argument, argument, argument, argument}
		for _, m := range machines {
			program, err := compile(p, m, BaseTightening(), nil)
			if err != nil {
				if !errors.Is(err, ErrTooLong) {
					t.Fatal(err)
				}
				continue
			}
			for _, r := range p.Rules {
				for _, name := range r.Calls {
					if n, ok := Number(m.goarch, name); ok {
						if got, want := Action(program.run1(m.audit, uint32(n), args)), naive(p, m, BaseTightening(), uint32(n), args); got != want {
							t.Fatalf("%s %x: got %v, want %v", name, args, got, want)
						}
					}
				}
			}
		}
	})
}
