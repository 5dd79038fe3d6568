package execd

import (
	"bytes"
	"context"
	"encoding/json/v2"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/enforcer"
	"github.com/sandboxd/sandboxd/execd/audit"
	"github.com/sandboxd/sandboxd/policy"
)

// VerifyRequest is the body of POST /v1/verify.
type VerifyRequest struct {
	// Sandbox is the only one to look at, with what runs in it; empty: everything of the caller's, and all there is for the daemon's own user.
	Sandbox string `json:"sandbox,omitempty"`
}

// ParseVerify reads the body; nothing at all is a body too.
func ParseVerify(data []byte) (VerifyRequest, error) {
	var r VerifyRequest
	if len(bytes.TrimSpace(data)) == 0 {
		return r, nil
	}
	if err := json.Unmarshal(data, &r, json.RejectUnknownMembers(true)); err != nil {
		return r, badField("", `want {} or {"sandbox": ID}: `+sentence(err))
	}
	return r, nil
}

// VerifyReply is what was read from the kernel, and tried, just now.
type VerifyReply struct {
	// Held says that every verdict below holds, and that forbidden acts were tried.
	Held   bool        `json:"held"`
	Tier   policy.Tier `json:"tier"`
	Kernel string      `json:"kernel"`
	BootID string      `json:"bootId"`
	// Daemon is the service itself against what it found at its start.
	Daemon    Proof          `json:"daemon"`
	Sandboxes []SandboxProof `json:"sandboxes"`
	Execs     []ExecProof    `json:"execs"`
	// Probes are forbidden acts, tried now.
	Probes        []PlanProof `json:"probes"`
	AuditSequence int64       `json:"auditSequence"`
}

// SandboxProof is the read-back of one sandbox.
type SandboxProof struct {
	ID      string `json:"id"`
	Verdict Proof  `json:"verdict"`
}

// ExecProof is the read-back of one program that runs.
type ExecProof struct {
	ID      string `json:"id"`
	Sandbox string `json:"sandbox"`
	Verdict Proof  `json:"verdict"`
}

// PlanProof is what came of the forbidden acts under one confinement.
type PlanProof struct {
	// Plan is the digest of the confinement: the plan without whose ids it has.
	Plan    string `json:"plan"`
	Verdict Proof  `json:"verdict"`
	// Message says why nothing could be tried.
	Message string `json:"message,omitempty"`
}

// Verify reads everything back that the caller may look at, and has the default plan and the plans of what runs tried by probes. What holds no
// longer is dealt with as drift. The error is that of a request that names nothing, or of a log that can't be written.
func (s *Service) Verify(ctx context.Context, r VerifyRequest, caller policy.Caller, rows bool) (VerifyReply, error) {
	all := caller.UID == os.Geteuid() && (caller.Via == "socket" || caller.Via == "cli") // whom the kernel names
	keep := func(box *sandbox) bool { return all || box.kept && same(box.owner, caller) }
	if r.Sandbox != "" {
		only, err := s.sandboxes.find(r.Sandbox, caller)
		if err != nil && !errors.Is(err, ErrDrifted) {
			return VerifyReply{}, err
		}
		keep = func(box *sandbox) bool { return box == only || err != nil && box.id == r.Sandbox }
	}
	v := &verification{service: s, rows: rows, reply: VerifyReply{
		Held: true, Tier: s.host.Tier(), Kernel: s.host.Kernel, BootID: s.host.BootID,
		Sandboxes: []SandboxProof{}, Execs: []ExecProof{}, Probes: []PlanProof{},
	}}
	v.reply.Daemon = v.proof(s.lookAtSelf())
	boxes := s.sandboxes.alive(keep)
	for _, box := range boxes {
		v.sandbox(box)
	}
	mine := func(w *walk) bool {
		return all && r.Sandbox == "" || same(w.request.Caller, caller) && (r.Sandbox == "" || w.box.id == r.Sandbox)
	}
	plans := map[string]usedPlan{}
	for _, w := range s.running.all(mine) {
		if verdict, there := s.lookAtExec(w); there {
			v.reply.Execs = append(v.reply.Execs, ExecProof{w.id, w.box.id, v.proof(verdict)})
			digest := w.plan.ConfinementDigest()
			plans[digest] = usedPlan{digest, w.plan, w.box.root}
		}
	}
	v.probe(ctx, r.Sandbox, boxes, plans)
	record := audit.Record{Type: audit.TypeVerify, Sandbox: r.Sandbox, Caller: &caller, Message: v.summary()}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.config.RecordTimeout)
	defer cancel()
	var err error
	v.reply.AuditSequence, err = s.log.Append(ctx, record)
	return v.reply, err
}

// same says whether two callers are one user who came by one way.
func same(a, b policy.Caller) bool { return a.UID == b.UID && a.Via == b.Via && a.Name == b.Name }

// verification collects a reply.
type verification struct {
	service *Service
	rows    bool
	reply   VerifyReply
}

func (v *verification) sandbox(box *sandbox) {
	if slices.ContainsFunc(v.reply.Sandboxes, func(p SandboxProof) bool { return p.ID == box.id }) {
		return
	}
	if verdict, there := v.service.lookAtSandbox(box); there {
		v.reply.Sandboxes = append(v.reply.Sandboxes, SandboxProof{box.id, v.proof(verdict)})
	}
}

func (v *verification) proof(verdict policy.Verdict) Proof {
	v.reply.Held = v.reply.Held && verdict.Held()
	proof := proofOf(verdict, verdict.Digest(), v.rows)
	proof.Degraded = append([]string{}, proof.Degraded...)
	return proof
}

// probe has the default plan tried, in the one sandbox that was asked for or in a fresh one, and then the plans of what runs, in fresh ones.
func (v *verification) probe(ctx context.Context, named string, boxes []*sandbox, plans map[string]usedPlan) {
	s := v.service
	box, give := (*sandbox)(nil), func() {}
	var err error
	switch {
	case named == "":
		if box, err = s.sandboxes.take(ctx, "", Self(), rootSpec{}); err == nil {
			give = func() { s.sandboxes.putBack(box) }
			v.sandbox(box)
		}
	case len(boxes) == 1 && boxes[0].drift.Load() == nil:
		if box, err = s.sandboxes.join(named, boxes[0].owner); err == nil {
			give = func() { s.sandboxes.putBack(box) }
		}
	default:
		err = ErrDrifted
	}
	defer func() { give() }()
	var plan enforcer.Plan
	if err == nil {
		plan, err = s.defaultPlan(ctx, box)
	}
	if err != nil {
		v.tried("", planProof{}, err)
	} else {
		delete(plans, plan.ConfinementDigest())
		proof, err := s.prove(ctx, box, plan)
		v.tried(plan.ConfinementDigest(), proof, err)
	}
	if open, there := s.relayPlan(ctx, box); err == nil && there {
		digest := open.ConfinementDigest()
		plans[digest] = usedPlan{digest, open, box.root}
	}
	for digest, plan := range plans {
		proof, err := s.proveFresh(ctx, plan.plan, plan.root)
		v.tried(digest, proof, err)
	}
}

// tried puts in what came of one plan's acts. What couldn't be tried doesn't hold.
func (v *verification) tried(digest string, proof planProof, err error) {
	verdict := policy.Verdict{Tier: v.service.host.Tier(), Rows: proof.rows}
	told := PlanProof{Plan: digest}
	if err != nil {
		told.Message = sentence(err)
		verdict.Rows = append(verdict.Rows, policy.Row{Control: "probes", Want: "tried", Got: told.Message, Evidence: policy.EvidenceProbe})
	}
	told.Verdict = v.proof(verdict)
	v.reply.Probes = append(v.reply.Probes, told)
}

func (v *verification) summary() string {
	text := "everything holds"
	if !v.reply.Held {
		text = "not everything holds"
	}
	return fmt.Sprintf("read back on demand: %d sandboxes, %d execs, %d plans: %s", len(v.reply.Sandboxes), len(v.reply.Execs), len(v.reply.Probes), text)
}

// lookAtSelf asks the host again what it can do, and looks at what the daemon itself stands on.
func (s *Service) lookAtSelf() policy.Verdict {
	v := policy.Verdict{Tier: s.host.Tier()}
	add := func(control string, want, got any) {
		row := policy.Row{Control: control, Want: fmt.Sprint(want), Got: fmt.Sprint(got), Evidence: policy.EvidenceKernel}
		row.Held = row.Want == row.Got
		v.Rows = append(v.Rows, row)
	}
	// What is held of the network is read back with the sandbox.
	now, err := enforcer.ProbeHost(enforcer.HostConfig{Show: s.config.Show, Attached: s.config.Attach.on()})
	if err != nil {
		v.Rows = append(v.Rows, unread(err))
		return v
	}
	then := s.host
	add("host.kernel", then.Kernel, now.Kernel)
	add("host.bootId", then.BootID, now.BootID)
	add("host.uid", then.UID, now.UID)
	add("host.capabilities", fmt.Sprintf("%#x", then.Capabilities), fmt.Sprintf("%#x", now.Capabilities))
	add("host.lastCapability", then.LastCapability, now.LastCapability)
	add("host.landlockAbi", then.LandlockABI, now.LandlockABI)
	add("host.seccompActions", strings.Join(then.SeccompActions, " "), strings.Join(now.SeccompActions, " "))
	add("host.seccompReadback", then.SeccompReadback, now.SeccompReadback)
	add("host.userNamespaces", then.UserNamespaces, now.UserNamespaces)
	add("host.suidDumpable", then.SuidDumpable, now.SuidDumpable)
	add("host.yama", then.Yama, now.Yama)
	for name, inode := range then.Namespaces {
		add("daemon.namespaces."+name, inode, now.Namespaces[name])
	}
	seals, err := unix.FcntlInt(s.binary.Fd(), unix.F_GET_SEALS, 0)
	const sealed = unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE
	add("daemon.launcher's binary", fmt.Sprintf("seals %#x, <nil>", sealed), fmt.Sprintf("seals %#x, %v", seals&sealed, err))
	add("daemon.audit", "written", written(s.log.Err()))
	return v
}

func written(err error) string {
	if err != nil {
		return sentence(err)
	}
	return "written"
}

// postVerify takes a place as an exec does, since it starts processes.
func (s *Service) postVerify(x *exchange) error {
	if err := s.open(); err != nil {
		return err
	}
	rows, err := x.flag("rows")
	if err != nil {
		return err
	}
	var data []byte
	if x.r.ContentLength != 0 {
		if data, err = s.body(x); err != nil {
			return err
		}
	}
	request, err := ParseVerify(data)
	if err != nil {
		return err
	}
	ticket, err := s.queue.enter()
	if err != nil {
		return err
	}
	defer ticket.leave()
	ctx, cancel := context.WithTimeout(x.r.Context(), verifyTimeout)
	defer cancel()
	if err := ticket.run(ctx, policy.Limits{}, 0); err != nil {
		return err
	}
	reply, err := s.Verify(ctx, request, x.caller, rows)
	if err != nil {
		return err
	}
	x.answer(200, reply)
	return nil
}

// verifyTimeout bounds one verification.
const verifyTimeout = 2 * time.Minute
