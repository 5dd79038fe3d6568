package policy

import (
	"encoding/json/jsontext"
	"testing"

	"pgregory.net/rapid"
)

// someText has what an encoder may get wrong: escapes, characters of every length, and bytes that aren't UTF-8.
var someText = rapid.OneOf(
	rapid.StringN(0, 8, -1),
	rapid.SampledFrom([]string{"", "a", "\"", "\\", "/", "<&>", "\x00\n\t\x1f\x7f", "é", "\u2028", "\uffff", "𐍈", "\xff", "a\xc3", "\xed\xa0\x80", "-"}),
)

// someKeys are of an environment. Two that aren't UTF-8 would be one in JSON, which a request that passes [Request.Validate] doesn't have.
var someKeys = rapid.SampledFrom([]string{"A", "B", "a", "_", "é", "\uffff", "𐍈", "\ue000", "AA", "A\"", ""})

var someRequest = rapid.Custom(func(t *rapid.T) Request {
	env := rapid.MapOfN(someKeys, someText, 0, 6)
	number := rapid.OneOf(rapid.Int64(), rapid.SampledFrom([]int64{0, 1, -1, 1<<63 - 1}))
	fraction := rapid.OneOf(rapid.Float64Range(-1e9, 1e9), rapid.SampledFrom([]float64{0, 0.1, 1e21, 1e-7, 60, 5e-324}))
	return Request{
		Action:          Action(someText.Draw(t, "action")),
		Caller:          Caller{int(number.Draw(t, "uid")), int(number.Draw(t, "gid")), int(number.Draw(t, "pid")), someText.Draw(t, "via"), someText.Draw(t, "name")},
		Sandbox:         someText.Draw(t, "sandbox"),
		SecurityContext: someContext.Draw(t, "context"),
		Network:         someNetwork.Draw(t, "network"),
		Command: Command{Argv: rapid.SliceOfN(someText, 0, 4).Draw(t, "argv"), Env: env.Draw(t, "env"), Cwd: someText.Draw(t, "cwd"),
			Stdin: rapid.SliceOfN(rapid.Byte(), 0, 5).Draw(t, "stdin"), LeaveChildren: rapid.Bool().Draw(t, "leave"), ReadOnly: rapid.Bool().Draw(t, "readOnly"), Terminal: rapid.Bool().Draw(t, "terminal")},
		Program: Program{Language: someText.Draw(t, "language"), Code: someText.Draw(t, "code"), Inputs: jsontext.Value(someText.Draw(t, "inputs")),
			Env: env.Draw(t, "programEnv"), Cwd: someText.Draw(t, "programCwd")},
		File: someFile.Draw(t, "file"),
		Limits: Limits{TimeoutSeconds: fraction.Draw(t, "timeout"), OutputBytes: number.Draw(t, "output"), MemoryBytes: number.Draw(t, "memory"),
			Pids: number.Draw(t, "pids"), CPU: fraction.Draw(t, "cpu"), CPUSeconds: fraction.Draw(t, "cpuSeconds"), OpenFiles: number.Draw(t, "files"), FileBytes: number.Draw(t, "size")},
	}
})

var someFile = rapid.Custom(func(t *rapid.T) File {
	f := File{Operation: FileOperation(someText.Draw(t, "operation")), Path: someText.Draw(t, "path"), Parents: rapid.Bool().Draw(t, "parents"),
		Follow: rapid.Bool().Draw(t, "follow"), To: someText.Draw(t, "to")}
	if mode := rapid.Int64Range(-1, 0o7777).Draw(t, "mode"); mode >= 0 {
		f.Mode = &mode
	}
	return f
})

var someVerdict = rapid.Custom(func(t *rapid.T) Verdict {
	row := rapid.Custom(func(t *rapid.T) Row {
		return Row{Control: someText.Draw(t, "control"), Want: someText.Draw(t, "want"), Got: someText.Draw(t, "got"), Held: rapid.Bool().Draw(t, "held"),
			Evidence: Evidence(someText.Draw(t, "evidence"))}
	})
	return Verdict{Tier: Tier(someText.Draw(t, "tier")), Rows: rapid.SliceOfN(row, 0, 4).Draw(t, "rows"),
		Degraded: rapid.SliceOfN(someText, 0, 3).Draw(t, "degraded")}
})

// The canonical form that is written by hand is, to the byte, that of the general encoder.
func TestCanonicalByHandIsTheEncoders(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		request := someRequest.Draw(t, "request")
		effective := Effective{request.SecurityContext, request.Network, request.Limits, someText.Draw(t, "onOutputLimit"), rapid.Bool().Draw(t, "explainDenials")}
		for _, value := range []any{request, effective, someVerdict.Draw(t, "verdict")} {
			if got, want := string(Canonical(value)), string(encoded(value)); got != want {
				t.Fatalf("%T:\n got %s\nwant %s", value, got, want)
			}
		}
	})
}

func BenchmarkDigestOfVerdict(b *testing.B) {
	v := Verdict{Tier: TierFull, Degraded: []string{"b", "a"}}
	for range 60 {
		v.Rows = append(v.Rows, Row{Control: "capabilities.bounding", Want: "0000000000000000", Got: "none", Held: true, Evidence: EvidenceKernel})
	}
	for b.Loop() {
		v.Digest()
	}
}
