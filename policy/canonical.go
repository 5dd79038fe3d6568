package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json/jsontext"
	json "encoding/json/v2"
	"fmt"
	"slices"
	"sync"
)

// Canonical is v as JSON in the one form that two equal values share: contexts, networks and limits in their Defaulted form, sets sorted, keys
// sorted, no white space, numbers and strings as RFC 8785 writes them (but integers exact). Nil lists and maps are the empty ones. The
// inputs of a program stand in it by length and digest of the text that came, since they may be too long to be in memory.
//
// v is a Request, SecurityContext, NetworkSpec, Limits, Command, Program, Decision, Effective or Verdict, or another value that JSON can hold, such
// as a plan. A value that it can't hold is a mistake in the caller and panics.
func Canonical(v any) []byte {
	w := writer{bytes: make([]byte, 0, 1<<10)}
	if !w.write(v) {
		return encoded(v)
	}
	return w.bytes
}

// write writes the values that every exec has a digest of, and says whether v is one.
func (w *writer) write(v any) bool {
	switch v := v.(type) {
	case Request:
		w.request(v)
	case Effective:
		w.effective(v)
	case Verdict:
		w.verdict(v)
	default:
		return false
	}
	return true
}

// encoded is the canonical form by way of a general encoder.
func encoded(v any) []byte {
	// A request from a command line may hold bytes that aren't UTF-8: Validate refuses it, and this must not be what fails before.
	data, err := json.Marshal(canonicalForm(v), json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
	if err != nil {
		panic(fmt.Sprintf("policy: bug: a %T has no canonical form: %v; please report it", v, err))
	}
	text := jsontext.Value(data)
	if err := text.Format(jsontext.ReorderRawObjects(true), jsontext.AllowInvalidUTF8(true)); err != nil {
		panic(fmt.Sprintf("policy: bug: the canonical form of a %T isn't JSON: %v; please report it", v, err))
	}
	return text
}

// Digest is "sha256:" and the hex of the hash of the canonical bytes.
func Digest(v any) string {
	w := writers.Get().(*writer)
	defer func() {
		if cap(w.bytes) <= mostKept {
			writers.Put(w)
		}
	}()
	w.bytes = w.bytes[:0]
	if !w.write(v) {
		w.bytes = append(w.bytes, encoded(v)...)
	}
	sum := sha256.Sum256(w.bytes)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// writers keep their memory from one digest to the next: a verdict has some ten kilobytes. A large request's isn't kept.
const mostKept = 64 << 10

var writers = sync.Pool{New: func() any { return &writer{bytes: make([]byte, 0, 16<<10)} }}

// Digest covers tier, every row and what is degraded.
func (v Verdict) Digest() string { return Digest(v) }

// canonicalForm replaces the words of this package by their canonical values; others pass as they are.
func canonicalForm(v any) any {
	switch v := v.(type) {
	case SecurityContext:
		return v.Defaulted()
	case NetworkSpec:
		return v.Defaulted()
	case Limits:
		return v.Defaulted()
	case Program:
		inputs := v.InputsBulk()
		return canonicalProgram{v.Language, v.Code, canonicalBulk{inputs.Bytes, inputs.Digest()}, v.Env, v.Cwd}
	case Effective:
		return v.canonical()
	case Decision:
		return v.canonical()
	case Verdict:
		v.Degraded = sortedSet(v.Degraded)
		return v
	case Request:
		return canonicalRequest{
			Action: v.Action, Caller: v.Caller, Sandbox: v.Sandbox, Image: v.Image,
			SecurityContext: v.SecurityContext.Defaulted(), Network: v.Network.Defaulted(), Limits: v.Limits.Defaulted(),
			Command: v.Command, Program: canonicalForm(v.Program).(canonicalProgram), File: v.File,
		}
	}
	return v
}

type canonicalRequest struct {
	Action          Action           `json:"action"`
	Caller          Caller           `json:"caller"`
	Sandbox         string           `json:"sandbox"`
	Image           Image            `json:"image,omitzero"`
	SecurityContext SecurityContext  `json:"securityContext"`
	Network         NetworkSpec      `json:"network"`
	Command         Command          `json:"command"`
	Program         canonicalProgram `json:"program"`
	File            File             `json:"file,omitzero"`
	Limits          Limits           `json:"limits"`
}

type canonicalProgram struct {
	Language string            `json:"language"`
	Code     string            `json:"code"`
	Inputs   canonicalBulk     `json:"inputs"`
	Env      map[string]string `json:"env"`
	Cwd      string            `json:"cwd"`
}

type canonicalBulk struct {
	Bytes  int64  `json:"bytes"`
	Digest string `json:"digest"`
}

type canonicalDecision struct {
	ID        string            `json:"id"`
	Allow     bool              `json:"allow"`
	Reasons   []canonicalReason `json:"reasons"`
	Effective Effective         `json:"effective"`
	Accept    []string          `json:"accept"`
	Labels    map[string]string `json:"labels"`
	Revision  string            `json:"revision"`
}

type canonicalReason struct {
	Rule    string           `json:"rule"`
	Message string           `json:"message"`
	Field   string           `json:"field"`
	Change  *canonicalChange `json:"change,omitempty"`
}

type canonicalChange struct {
	Op    string `json:"op"`
	Field string `json:"field"`
	Value string `json:"value"`
}

func (e Effective) canonical() Effective {
	e.SecurityContext, e.Network, e.Limits = e.SecurityContext.Defaulted(), e.Network.Defaulted(), e.Limits.Defaulted()
	return e
}

// canonical keeps the order of the reasons, which is that of the rules; what is accepted is a set.
func (d Decision) canonical() canonicalDecision {
	reasons := make([]canonicalReason, len(d.Reasons))
	for i, reason := range d.Reasons {
		reasons[i] = canonicalReason{Rule: reason.Rule, Message: reason.Message, Field: reason.Field}
		if reason.Change != nil {
			reasons[i].Change = &canonicalChange{reason.Change.Op, reason.Change.Field, string(reason.Change.Value)}
		}
	}
	return canonicalDecision{d.ID, d.Allow, reasons, d.Effective.canonical(), sortedSet(d.Accept), d.Labels, d.Revision}
}

func sortedSet(words []string) []string {
	set := slices.Clone(words)
	slices.Sort(set)
	return append([]string{}, slices.Compact(set)...)
}
