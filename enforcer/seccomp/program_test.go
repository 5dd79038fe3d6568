package seccomp

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var ret = Instruction{Code: opReturn, K: uint32(Allow)}

// TestRun: each instruction by what it leaves in the accumulator.
func TestRun(t *testing.T) {
	const a, x = 0x80000005, 3
	set := Program{{Code: 0x00, K: x}, {Code: 0x07}, {Code: 0x00, K: a}} // X = x, A = a
	for _, c := range []struct {
		name string
		in   []Instruction
		want uint32
	}{
		{"number", []Instruction{{Code: 0x20, K: 0}}, 0x89abcdef},
		{"architecture", []Instruction{{Code: 0x20, K: 4}}, 0xc000003e},
		{"instruction pointer", []Instruction{{Code: 0x20, K: 8}}, 0},
		{"argument 0, low", []Instruction{{Code: 0x20, K: 16}}, 0x55667788},
		{"argument 0, high", []Instruction{{Code: 0x20, K: 20}}, 0x11223344},
		{"argument 5, high", []Instruction{{Code: 0x20, K: 60}}, 6},
		{"length", []Instruction{{Code: 0x80}}, 64},
		{"length to X", []Instruction{{Code: 0x81}, {Code: 0x87}}, 64},
		{"constant to X", []Instruction{{Code: 0x01, K: 9}, {Code: 0x87}}, 9},
		{"scratch", []Instruction{{Code: 0x02, K: 15}, {Code: 0x00, K: 1}, {Code: 0x60, K: 15}}, a},
		{"scratch X", []Instruction{{Code: 0x03, K: 1}, {Code: 0x61, K: 1}, {Code: 0x87}}, x},
		{"add", []Instruction{{Code: 0x04, K: 0x80000000}}, 5},
		{"add X", []Instruction{{Code: 0x0c}}, a + x},
		{"sub", []Instruction{{Code: 0x14, K: 0x80000006}}, 0xffffffff},
		{"sub X", []Instruction{{Code: 0x1c}}, a - x},
		{"mul", []Instruction{{Code: 0x24, K: 2}}, 10},
		{"mul X", []Instruction{{Code: 0x2c}}, 0x8000000f},
		{"div", []Instruction{{Code: 0x34, K: 2}}, 0x40000002},
		{"div X", []Instruction{{Code: 0x3c}}, a / x},
		{"div by 0", []Instruction{{Code: 0x01}, {Code: 0x3c}, {Code: 0x00, K: 7}}, 0},
		{"or", []Instruction{{Code: 0x44, K: 2}}, 0x80000007},
		{"or X", []Instruction{{Code: 0x4c}}, 0x80000007},
		{"and", []Instruction{{Code: 0x54, K: 4}}, 4},
		{"and X", []Instruction{{Code: 0x5c}}, 1},
		{"lsh", []Instruction{{Code: 0x64, K: 1}}, 10},
		{"lsh X", []Instruction{{Code: 0x6c}}, 40},
		{"rsh", []Instruction{{Code: 0x74, K: 31}}, 1},
		{"rsh X", []Instruction{{Code: 0x7c}}, 0x10000000},
		{"neg", []Instruction{{Code: 0x84}}, 0x7ffffffb},
		{"xor", []Instruction{{Code: 0xa4, K: 4}}, 0x80000001},
		{"xor X", []Instruction{{Code: 0xac}}, 0x80000006},
		{"ja", []Instruction{{Code: 0x05, K: 1}, {Code: 0x00}}, a},
		{"jeq", []Instruction{{Code: 0x15, K: a, JT: 1}, {Code: 0x00}}, a},
		{"jeq not", []Instruction{{Code: 0x15, K: a + 1, JT: 1}, {Code: 0x00}}, 0},
		{"jeq X not", []Instruction{{Code: 0x1d, JT: 1}, {Code: 0x00}}, 0},
		{"jgt is unsigned", []Instruction{{Code: 0x25, K: 0x7fffffff, JT: 1}, {Code: 0x00}}, a},
		{"jgt equal", []Instruction{{Code: 0x25, K: a, JT: 1}, {Code: 0x00}}, 0},
		{"jgt X", []Instruction{{Code: 0x2d, JT: 1}, {Code: 0x00}}, a},
		{"jge equal", []Instruction{{Code: 0x35, K: a, JT: 1}, {Code: 0x00}}, a},
		{"jge less", []Instruction{{Code: 0x35, K: a + 1, JT: 1}, {Code: 0x00}}, 0},
		{"jge X", []Instruction{{Code: 0x3d, JT: 1}, {Code: 0x00}}, a},
		{"jset", []Instruction{{Code: 0x45, K: 0x80000000, JT: 1}, {Code: 0x00}}, a},
		{"jset none", []Instruction{{Code: 0x45, K: 2, JT: 1}, {Code: 0x00}}, 0},
		{"jset X", []Instruction{{Code: 0x4d, JT: 1}, {Code: 0x00}}, a},
		{"ret constant", []Instruction{{Code: 0x06, K: 77}}, 77},
	} {
		p := append(append(append(Program{}, set...), c.in...), Instruction{Code: 0x16})
		if err := p.Validate(); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if got := p.Run(0xc000003e, 0xff_89abcdef, [6]uint64{0x11223344_55667788, 0, 0, 0, 0, 6 << 32}); got != c.want {
			t.Errorf("%s: got %#x, want %#x", c.name, got, c.want)
		}
	}
}

func TestValidateRefuses(t *testing.T) {
	for name, p := range map[string]Program{
		"nothing":                 nil,
		"too long":                make(Program, maxInstructions+1),
		"no return":               {{Code: opLoad}},
		"half-word load":          {{Code: 0x28}, ret},
		"indirect load":           {{Code: 0x40}, ret},
		"mod":                     {{Code: 0x94, K: 3}, ret},
		"eBPF call":               {{Code: 0x85}, ret},
		"ret X":                   {{Code: 0x0e}},
		"code above 255":          {{Code: 0x120}, ret},
		"unaligned load":          {{Code: opLoad, K: 2}, ret},
		"load past the data":      {{Code: opLoad, K: 64}, ret},
		"jump past the end":       {{Code: opJump, K: 1}, ret},
		"jump that wraps":         {{Code: opJump, K: 1<<32 - 1}, ret},
		"true jump past the end":  {{Code: opIfEqual, JT: 1}, ret},
		"false jump past the end": {{Code: opIfEqual, JF: 1}, ret},
		"scratch word 16":         {{Code: 0x02, K: 16}, ret},
		"scratch not stored":      {{Code: 0x60}, ret},
		"stored on one way only":  {{Code: opIfEqual, JT: 1}, {Code: 0x02, K: 1}, {Code: 0x60, K: 1}, ret},
		"shift by 32":             {{Code: 0x64, K: 32}, ret},
		"division by 0":           {{Code: 0x34}, ret},
	} {
		if p.Validate() == nil {
			t.Errorf("%s: valid", name)
		}
		if got := p.Run(0, 0, [6]uint64{}); got != uint32(KillProcess) {
			t.Errorf("%s: runs and answers %#x", name, got)
		}
	}
}

func TestProgramJSON(t *testing.T) {
	f, err := NewFilter("RuntimeDefault", mustDefault(t, "amd64"), "amd64")
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	var back Filter
	if err := json.Unmarshal(data, &back, json.RejectUnknownMembers(true)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(f, back); diff != "" || f.Program.Digest() != back.Program.Digest() {
		t.Error(diff)
	}
	if read, err := FromBytes(f.Program.Bytes()); err != nil || !cmp.Equal(read, f.Program) {
		t.Errorf("FromBytes: %v", err)
	}
	var none Filter
	if err := json.Unmarshal([]byte(`{"profile":"Unconfined","program":"","probes":[]}`), &none); err != nil || none.Program != nil {
		t.Errorf("no program: %v %v", none, err)
	}
	for _, bad := range []string{`"!"`, `"AAAA"`, `"` + base64.StdEncoding.EncodeToString(make([]byte, 8)) + `"`, `[1]`, `"IAAAAAAAAAA"`} {
		var p Program
		if err := json.Unmarshal([]byte(bad), &p); err == nil {
			t.Errorf("%s: no error", bad)
		}
	}
}

func TestFilterProbes(t *testing.T) {
	for _, m := range machines {
		for name, p := range map[string]Profile{"default": mustDefault(t, m.goarch), "allow all": {Default: Allow}} {
			f, err := NewFilter(name, p, m.goarch)
			if err != nil {
				t.Fatal(err)
			}
			if len(f.Probes) != len(candidates) {
				t.Errorf("%s %s: %d probes of %d candidates", m.goarch, name, len(f.Probes), len(candidates))
			}
			for _, probe := range f.Probes {
				if got := f.Program.Run(m.audit, uint64(probe.Nr), probe.Args); got != uint32(errno)|uint32(probe.Errno) || probe.Errno == 0 {
					t.Errorf("%s %s: probe %s: answer %#x, recorded errno %d", m.goarch, name, probe.Name, got, probe.Errno)
				}
			}
		}
		// A profile that kills is obeyed, and not tried.
		killer := Profile{Default: KillProcess, Rules: []Rule{{Calls: gateCalls[:], Action: Allow}, {Calls: []string{"ioctl"}, Action: Allow}}}
		f, err := NewFilter("killer", killer, m.goarch)
		if err != nil {
			t.Fatal(err)
		}
		for _, probe := range f.Probes {
			if Name(m.goarch, int(probe.Nr)) != "ioctl" {
				t.Errorf("%s: probe %s would kill", m.goarch, probe.Name)
			}
		}
		if _, err := NewFilter("mute", Profile{Default: KillProcess, Rules: killer.Rules[:1]}, m.goarch); err == nil {
			t.Error("a filter without any probe passes")
		}
	}
}

// FuzzRun: any bytes are refused, or run to an answer within the program's length and survive their own JSON.
func FuzzRun(f *testing.F) {
	p, err := RuntimeDefault("amd64", kernel)
	if err != nil {
		f.Fatal(err)
	}
	program, err := Compile(p, "amd64")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(program.Bytes(), uint32(0xc000003e), uint64(41), uint64(2))
	f.Add(Program{{Code: 0x02, K: 3}, {Code: opIfEqual, JT: 1}, {Code: 0x60, K: 3}, {Code: 0x3c}, {Code: 0x16}}.Bytes(), uint32(1), uint64(1), uint64(1))
	f.Fuzz(func(t *testing.T, rows []byte, arch uint32, nr, argument uint64) {
		p, err := FromBytes(rows)
		if err != nil {
			return
		}
		valid := p.Validate() == nil
		action, steps := p.Trace(arch, nr, [6]uint64{argument, argument, argument, argument, argument, argument})
		if !valid && action != uint32(KillProcess) || steps > len(p) {
			t.Fatalf("valid %v: %#x after %d steps", valid, action, steps)
		}
		text, err := p.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		var back Program
		if err := back.UnmarshalText(text); (err == nil) != (valid || len(p) == 0) {
			t.Fatalf("valid %v, UnmarshalText: %v", valid, err)
		} else if valid && !cmp.Equal(back, p) {
			t.Fatal("another program came back")
		}
		if valid {
			if kept := p.reachable(); Action(kept.Run(arch, nr, [6]uint64{argument})) != Action(p.Run(arch, nr, [6]uint64{argument})) {
				t.Fatal("leaving out what is unreachable changed the answer")
			}
		}
	})
}

func TestBytesAreTheKernelsLayout(t *testing.T) {
	b := Program{{Code: 0x1234, JT: 5, JF: 6, K: 0x789abcde}}.Bytes()
	if len(b) != 8 || binary.NativeEndian.Uint16(b) != 0x1234 || b[2] != 5 || b[3] != 6 || binary.NativeEndian.Uint32(b[4:]) != 0x789abcde {
		t.Errorf("%x", b)
	}
}
