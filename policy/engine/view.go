package engine

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"maps"
	"math"
	"slices"
	"sync"

	"github.com/sandboxd/sandboxd/policy"
)

// mostInput bounds what Rego sees of one request. A builtin that is linear in the input (a regular expression on 10 MB ran 2 s and took 1.6 GB)
// is then fast.
const mostInput = 256 << 10

// view is what Rego sees of a request, and the key of the whole of it.
type view struct {
	request policy.Request
	// commandEnv and programEnv are names, sorted.
	commandEnv, programEnv []string
	stdin, code, inputs    blob
	// bytes is the size of what Rego sees.
	bytes int
	key   [sha256.Size]byte
}

// blob stands for bytes that Rego doesn't see.
type blob struct {
	size   int
	digest [sha256.Size]byte
}

// nothing is what most requests have for two of the three.
var nothing = blob{digest: sha256.Sum256(nil)}

func newBlob(data []byte) blob {
	if len(data) == 0 {
		return nothing
	}
	return blob{size: len(data), digest: sha256.Sum256(data)}
}

// bulkBlob is that of a program's inputs, which may be elsewhere.
func bulkBlob(p policy.Program) blob {
	if p.Bulk != nil {
		return blob{size: int(p.Bulk.Bytes), digest: p.Bulk.Sum}
	}
	return newBlob(p.Inputs)
}

func (b blob) String() string { return "sha256:" + hex.EncodeToString(b.digest[:]) }

// look reads a request once. The key covers every field but the caller's PID, which Rego doesn't see: a rule that could would be a race, and the
// same request would never be the same again.
func look(request policy.Request) view {
	v := view{
		request:    request,
		commandEnv: sortedNames(request.Command.Env),
		programEnv: sortedNames(request.Program.Env),
		stdin:      newBlob(request.Command.Stdin),
		code:       newBlob([]byte(request.Program.Code)),
		inputs:     bulkBlob(request.Program),
	}
	buffer := buffers.Get().(*encoder)
	defer buffers.Put(buffer)
	buffer.bytes = buffer.bytes[:0]
	buffer.seen(&v)
	v.bytes = len(buffer.bytes)
	// The values of the environment are part of the key and not of what is seen.
	for _, name := range v.commandEnv {
		buffer.text(request.Command.Env[name])
	}
	for _, name := range v.programEnv {
		buffer.text(request.Program.Env[name])
	}
	v.key = sha256.Sum256(buffer.bytes)
	return v
}

func sortedNames(env map[string]string) []string {
	if len(env) == 0 {
		return nil
	}
	return slices.Sorted(maps.Keys(env))
}

// encoder writes a request without ambiguity: lengths before texts and lists, one byte before what may be nil.
type encoder struct{ bytes []byte }

var buffers = sync.Pool{New: func() any { return &encoder{bytes: make([]byte, 0, 4<<10)} }}

func (e *encoder) seen(v *view) {
	r := v.request
	e.text(string(r.Action))
	e.number(int64(r.Caller.UID))
	e.number(int64(r.Caller.GID))
	e.text(r.Caller.Via)
	e.text(r.Sandbox)
	e.text(r.Image.Name)
	e.text(r.Image.Digest)
	e.context(r.SecurityContext)
	e.text(r.Network.DefaultAction)
	e.present(r.Network.Datagrams)
	e.length(len(r.Network.Egress))
	for _, rule := range r.Network.Egress {
		e.text(rule.Action)
		e.text(rule.Target)
		e.length(len(rule.Ports))
		for _, port := range rule.Ports {
			e.number(int64(port))
		}
	}
	e.texts(r.Command.Argv)
	e.texts(v.commandEnv)
	e.text(r.Command.Cwd)
	e.blob(v.stdin)
	e.present(r.Command.LeaveChildren)
	e.present(r.Command.ReadOnly)
	e.present(r.Command.Terminal)
	e.text(r.Program.Language)
	e.blob(v.code)
	e.blob(v.inputs)
	e.texts(v.programEnv)
	e.text(r.Program.Cwd)
	e.file(r.File)
	e.limits(r.Limits)
}

func (e *encoder) context(c policy.SecurityContext) {
	for _, flag := range []*bool{c.Privileged, c.AllowPrivilegeEscalation, c.ReadOnlyRootFilesystem, c.RunAsNonRoot} {
		switch {
		case flag == nil:
			e.number(0)
		case *flag:
			e.number(1)
		default:
			e.number(2)
		}
	}
	for _, id := range []*int64{c.RunAsUser, c.RunAsGroup} {
		if e.present(id != nil) {
			e.number(*id)
		}
	}
	e.length(len(c.SupplementalGroups))
	for _, group := range c.SupplementalGroups {
		e.number(group)
	}
	if e.present(c.Capabilities != nil) {
		e.texts(c.Capabilities.Add)
		e.texts(c.Capabilities.Drop)
	}
	if e.present(c.SeccompProfile != nil) {
		e.text(c.SeccompProfile.Type)
		if e.present(c.SeccompProfile.LocalhostProfile != nil) {
			e.text(*c.SeccompProfile.LocalhostProfile)
		}
	}
	if e.present(c.ProcMount != nil) {
		e.text(*c.ProcMount)
	}
}

func (e *encoder) file(f policy.File) {
	e.text(string(f.Operation))
	e.text(f.Path)
	if e.present(f.Mode != nil) {
		e.number(*f.Mode)
	}
	e.present(f.Parents)
	e.present(f.Follow)
	e.text(f.To)
}

func (e *encoder) limits(l policy.Limits) {
	e.number(int64(math.Float64bits(l.TimeoutSeconds)))
	e.number(l.OutputBytes)
	e.number(l.MemoryBytes)
	e.number(l.Pids)
	e.number(int64(math.Float64bits(l.CPU)))
	e.number(int64(math.Float64bits(l.CPUSeconds)))
	e.number(l.OpenFiles)
	e.number(l.FileBytes)
}

func (e *encoder) number(value int64) { e.bytes = binary.AppendVarint(e.bytes, value) }

func (e *encoder) length(value int) { e.bytes = binary.AppendUvarint(e.bytes, uint64(value)) }

func (e *encoder) text(value string) {
	e.length(len(value))
	e.bytes = append(e.bytes, value...)
}

func (e *encoder) texts(values []string) {
	e.length(len(values))
	for _, value := range values {
		e.text(value)
	}
}

func (e *encoder) blob(value blob) {
	e.length(value.size)
	e.bytes = append(e.bytes, value.digest[:]...)
}

func (e *encoder) present(is bool) bool {
	if is {
		e.bytes = append(e.bytes, 1)
	} else {
		e.bytes = append(e.bytes, 0)
	}
	return is
}
