package enforcer

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json/v2"
	"errors"

	"github.com/sandboxd/sandboxd/policy"
)

// Profiles is where Localhost seccomp profiles are.
type Profiles struct {
	// Dir holds them: regular files, no symlink out. Empty: there are none.
	Dir string
}

// Build makes a decision concrete for this host and sandbox, or refuses with a [*RefusedError].
func Build(d policy.Decision, h Host, s SandboxPlan, p Profiles) (Plan, error) {
	return Plan{}, errors.ErrUnsupported
}

// Digest is "sha256:" and hex over the plan's JSON with sorted keys.
func (p Plan) Digest() string {
	data, err := json.Marshal(p, json.Deterministic(true))
	if err != nil {
		panic("enforcer: plan has no JSON form: " + err.Error())
	}
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}
