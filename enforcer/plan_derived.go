package enforcer

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json/v2"
	"slices"
	"sync"
)

// derived is what follows from a plan alone. Execs come with equal plans, and encoding or hashing one costs many times what comparing it does.
type derived struct {
	plan Plan // a copy that nobody else can change
	// digest is [Plan.Digest], program the seccomp program as the kernel has it, with programText its digest.
	digest      string
	program     []byte
	programText string
	probes      []string
}

// recent are the plans that were derived from last.
var recent struct {
	sync.Mutex
	kept []*derived // newest last
}

// mostRecent is how many are kept, each with some ten kilobytes.
const mostRecent = 8

// derived must not be changed by who gets it.
func (p Plan) derived() *derived {
	recent.Lock()
	defer recent.Unlock()
	for i, kept := range slices.Backward(recent.kept) {
		if kept.plan.Equal(p) {
			recent.kept = append(slices.Delete(recent.kept, i, i+1), kept)
			return kept
		}
	}
	made := &derived{plan: p.clone(), digest: p.newDigest(), program: p.Seccomp.Program.Bytes(), probes: Probes(p)}
	made.programText = digestText(made.program)
	if len(recent.kept) == mostRecent {
		recent.kept = slices.Delete(recent.kept, 0, 1)
	}
	recent.kept = append(recent.kept, made)
	return made
}

// Digest is "sha256:" and hex over the plan's JSON with sorted keys.
func (p Plan) Digest() string { return p.derived().digest }

func (p Plan) newDigest() string {
	data, err := json.Marshal(p, json.Deterministic(true))
	if err != nil {
		panic("enforcer: a plan has no JSON form; please report this: " + err.Error())
	}
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}
