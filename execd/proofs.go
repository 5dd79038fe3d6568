package execd

import (
	"encoding/json/v2"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/enforcer"
	"github.com/sandboxd/sandboxd/policy"
)

// proofKey is what a proof by probes holds for: a confinement, by the digest of its plan without whose ids it has, on one kernel, until the next boot.
type proofKey struct {
	Plan   string `json:"plan"`
	Kernel string `json:"kernel"`
	BootID string `json:"bootId"`
}

// planProof is what came of the forbidden acts under one confinement.
type planProof struct {
	proofKey
	At time.Time `json:"at"`
	// Acts is how many were tried; Failed has the rows of those that weren't refused as they must be.
	Acts   int          `json:"acts"`
	Failed []policy.Row `json:"failed"`

	// rows are all of them, right after they were tried.
	rows []policy.Row
}

func (p planProof) held() bool { return p.Acts > 0 && len(p.Failed) == 0 }

// row says in a verdict what is known, and that it is known from another process under the same confinement.
func (p planProof) row() policy.Row {
	got := fmt.Sprintf("%d of %d acts not refused, tried %s by another process under this plan: %s",
		len(p.Failed), p.Acts, p.At.UTC().Format(time.RFC3339), failedRows(policy.Verdict{Rows: p.Failed}))
	if p.held() {
		got = fmt.Sprintf("%d acts refused, tried %s by another process under this plan", p.Acts, p.At.UTC().Format(time.RFC3339))
	}
	return policy.Row{Control: "probes", Want: "forbidden acts refused", Got: got, Held: p.held(), Evidence: policy.EvidenceProbe}
}

// proofs are the proofs by probes that this daemon has, and the plans that are in use.
type proofs struct {
	path         string // of the file that outlives the daemon
	kernel, boot string

	mu    sync.Mutex // guards what follows
	known map[string]planProof
	// used has a plan of each confinement that was asked for last, newest at the end.
	used []usedPlan
}

// usedPlan is a plan, and the root of a sandbox that it can be tried in.
type usedPlan struct {
	digest string
	plan   enforcer.Plan
	root   rootSpec
}

// mostPlans bounds the plans that are remembered.
const mostPlans = 16

// open reads what a daemon before this one has proven on this boot. A file that isn't ours alone, or isn't whole, says nothing.
func (p *proofs) open(path string, h enforcer.Host) error {
	p.path, p.kernel, p.boot, p.known = path, h.Kernel, h.BootID, map[string]planProof{}
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	var stat unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &stat); err != nil {
		return err
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFREG || int(stat.Uid) != os.Geteuid() || stat.Mode&0o022 != 0 {
		return fmt.Errorf("%s: not a file that this user alone may write", path)
	}
	var list []planProof
	if err := json.UnmarshalRead(file, &list, json.RejectUnknownMembers(true)); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for _, proof := range list {
		if proof.Kernel == p.kernel && proof.BootID == p.boot && proof.Acts > 0 {
			p.known[proof.Plan] = proof
		}
	}
	return nil
}

// use remembers that a plan is in use, and gives the row of its proof, if there is one.
func (p *proofs) use(plan enforcer.Plan, root rootSpec) (policy.Row, bool) {
	digest := plan.ConfinementDigest()
	if !plan.WritableRoot { // then it confines alike in every root, and the host's own is always there
		root = rootSpec{}
	}
	root.over = nil
	plan.Terminal = false // the program that tries has pipes, and no answer depends on that
	p.mu.Lock()
	defer p.mu.Unlock()
	p.remember(usedPlan{digest, plan, root})
	proof, ok := p.known[digest]
	return proof.row(), ok
}

// remember puts a plan at the end, with mu held.
func (p *proofs) remember(plan usedPlan) {
	if n := len(p.used); n > 0 && p.used[n-1].digest == plan.digest {
		return
	}
	kept := p.used[:0:0]
	for _, other := range p.used {
		if other.digest != plan.digest {
			kept = append(kept, other)
		}
	}
	if len(kept) == mostPlans {
		kept = kept[1:]
	}
	p.used = append(kept, plan)
}

// stale are the plans in use that aren't proven since then. One that doesn't hold is tried again and again: nothing runs under it.
func (p *proofs) stale(since time.Time) []usedPlan {
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []usedPlan
	for _, used := range p.used {
		if proof, ok := p.known[used.digest]; !ok || !proof.held() || proof.At.Before(since) {
			list = append(list, used)
		}
	}
	return list
}

// fresh says whether a plan is proven since then.
func (p *proofs) fresh(plan enforcer.Plan, since time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	proof, ok := p.known[plan.ConfinementDigest()]
	return ok && proof.held() && !proof.At.Before(since)
}

// failed says which confinements in use are known not to hold. What nobody asks for keeps nobody waiting.
func (p *proofs) failed() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []string
	for _, used := range p.used {
		if proof, ok := p.known[used.digest]; ok && !proof.held() {
			list = append(list, fmt.Sprintf("plan %s does not hold: %s", used.digest, failedRows(policy.Verdict{Rows: proof.Failed})))
		}
	}
	return list
}

// status counts what is known of the plans in use.
func (p *proofs) status() ProofsStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	status := ProofsStatus{Plans: len(p.used)}
	for _, used := range p.used {
		proof, ok := p.known[used.digest]
		switch {
		case !ok:
		case !proof.held():
			status.Failed++
		default:
			status.Held++
			if status.OldestAt.IsZero() || proof.At.Before(status.OldestAt) {
				status.OldestAt = proof.At
			}
		}
	}
	return status
}

// add takes a proof in, and writes all of them down.
func (p *proofs) add(digest string, rows []policy.Row) (planProof, error) {
	proof := planProof{
		proofKey: proofKey{digest, p.kernel, p.boot}, At: time.Now(), Acts: len(rows), Failed: policy.Verdict{Rows: rows}.Failed(), rows: rows,
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known[digest] = proof
	list := make([]planProof, 0, len(p.known))
	for _, known := range p.known {
		list = append(list, known)
	}
	data, err := json.Marshal(list, json.Deterministic(true))
	if err != nil {
		return proof, err
	}
	return proof, replaceFile(p.path, data)
}

// replaceFile writes a file of ours whole, or not at all.
func replaceFile(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // mode 0600
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return nil
}
