package seccomp

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"fmt"
)

// The OCI form as it is written: what ParseProfile reads, without moby's additions.
type (
	outProfile struct {
		DefaultAction   string    `json:"defaultAction"`
		DefaultErrnoRet *uint64   `json:"defaultErrnoRet,omitempty"`
		Architectures   []string  `json:"architectures"`
		Syscalls        []outRule `json:"syscalls"`
	}
	outRule struct {
		Names    []string `json:"names"`
		Action   string   `json:"action"`
		ErrnoRet *uint64  `json:"errnoRet,omitempty"`
		Args     []outArg `json:"args,omitempty"`
	}
	outArg struct {
		Index    uint8  `json:"index"`
		Value    uint64 `json:"value"`
		ValueTwo uint64 `json:"valueTwo,omitzero"`
		Op       string `json:"op"`
	}
)

// ociArch is what the runtime specification calls our architectures.
var ociArch = map[string]string{"amd64": "SCMP_ARCH_X86_64", "arm64": "SCMP_ARCH_AARCH64"}

// Encode writes the profile in the OCI form, for one architecture: conditions are resolved, since only moby has them. ParseProfile reads it back.
func (p Profile) Encode(arch string) ([]byte, error) {
	resolved, err := p.Resolved(arch)
	if err != nil {
		return nil, err
	}
	out := outProfile{Architectures: []string{ociArch[arch]}, Syscalls: []outRule{}}
	if out.DefaultAction, out.DefaultErrnoRet, err = actionWord(p.Default); err != nil {
		return nil, err
	}
	for _, r := range resolved.Rules {
		written := outRule{Names: r.Calls}
		if written.Action, written.ErrnoRet, err = actionWord(r.Action); err != nil {
			return nil, err
		}
		for _, t := range r.Tests {
			arg, err := t.written()
			if err != nil {
				return nil, fmt.Errorf("seccomp: rule for %s: %w", r.Calls[0], err)
			}
			written.Args = append(written.Args, arg)
		}
		out.Syscalls = append(out.Syscalls, written)
	}
	text, err := json.Marshal(out, jsontext.WithIndent("  "))
	return append(text, '\n'), err
}

func actionWord(a Action) (word string, data *uint64, err error) {
	for _, w := range actionWords {
		if w.action != a&0xffff0000 {
			continue
		}
		if w.action == errno || w.action == trace {
			data = new(uint64(a & 0xffff))
		}
		return w.word, data, nil
	}
	return "", nil, fmt.Errorf("seccomp: a profile can't say %v", a)
}

func (t Test) written() (outArg, error) {
	if t.Op == Equal && t.Mask != 1<<64-1 {
		return outArg{Index: t.Arg, Value: t.Mask, ValueTwo: t.Value, Op: "SCMP_CMP_MASKED_EQ"}, nil
	}
	for _, o := range operators {
		if o.op == t.Op && t.Mask == 1<<64-1 {
			return outArg{Index: t.Arg, Value: t.Value, Op: o.word}, nil
		}
	}
	return outArg{}, fmt.Errorf("the OCI form has no masked comparison but equality")
}
