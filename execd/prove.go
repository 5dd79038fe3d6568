package execd

import (
	"bytes"
	"context"
	"encoding/json/v2"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/sandboxd/sandboxd/enforcer"
	"github.com/sandboxd/sandboxd/execd/audit"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/runner"
)

// prove has forbidden acts tried in a sandbox under a plan: what the kernel gives no read API for is known by what is refused. The acts are tried by
// our own binary, which is held at the gate and read back as any other. An error says that nothing is known, and changes nothing; an act that
// wasn't refused is in the proof, and from then on nothing runs under that confinement.
func (s *Service) prove(ctx context.Context, box *sandbox, plan enforcer.Plan) (planProof, error) {
	plan.Terminal = false
	began := audit.Record{Type: audit.TypeVerify, Sandbox: box.id, PlanDigest: plan.Digest(), Message: "forbidden acts are tried"}
	if _, err := s.log.Append(ctx, began); err != nil {
		return planProof{}, err
	}
	if err := s.letProbesOut(box, plan); err != nil {
		return planProof{}, fmt.Errorf("probes: %w", err)
	}
	acts := enforcer.Acts(plan, s.host.Arch)
	var names []string
	for _, act := range acts {
		if !act.Alone {
			names = append(names, act.Name)
		}
	}
	answers, exit, err := s.tryActs(ctx, box, plan, names)
	if err != nil {
		return planProof{}, fmt.Errorf("probes: %w", err)
	}
	if exit.Status.ExitStatus() != 0 || len(answers) != len(names) {
		return planProof{}, fmt.Errorf("probes: %d of %d acts were tried, status %v: %s", len(answers), len(names), exit.Status, exit.Stderr.Data)
	}
	for _, act := range acts {
		if !act.Alone {
			continue
		}
		answer, exit, err := s.tryActs(ctx, box, plan, []string{act.Name})
		if err != nil {
			return planProof{}, fmt.Errorf("probe %s: %w", act.Name, err)
		}
		switch {
		case exit.Status.Signaled() && exit.Status.Signal() == syscall.SIGSYS:
			answers[act.Name] = "SIGSYS"
		case answer[act.Name] != "":
			answers[act.Name] = answer[act.Name]
		default:
			answers[act.Name] = fmt.Sprintf("status %v", exit.Status)
		}
	}
	rows := enforcer.CheckActs(acts, answers)
	s.proofs.use(plan, box.root)
	proof, err := s.proofs.add(plan.ConfinementDigest(), rows)
	if err != nil {
		s.logger.Warn("probes: the proof isn't written down", "error", err)
	}
	verdict := policy.Verdict{Tier: plan.Tier, Rows: rows, Degraded: plan.Degraded}
	ended := began
	ended.Message, ended.Verdict = fmt.Sprintf("%d acts tried, %d not refused", proof.Acts, len(proof.Failed)), recordedVerdict(verdict, verdict.Digest())
	if _, err := s.log.Append(ctx, ended); err != nil {
		return proof, err
	}
	if !proof.held() {
		s.logger.Error("probes", "plan", began.PlanDigest, "found", failedRows(verdict))
	}
	return proof, nil
}

// tryActs has acts tried by one process.
func (s *Service) tryActs(ctx context.Context, box *sandbox, plan enforcer.Plan, names []string) (map[string]string, runner.Exit, error) {
	ctx, cancel := context.WithTimeout(ctx, s.config.GateTimeout)
	defer cancel()
	if !box.kept {
		box.used = true
	}
	invocation := enforcer.Invocation{Argv: append([]string{runner.Name, runner.ProbeMode}, names...), Cwd: "/", Own: true}
	child, err := box.Prepare(ctx, plan, invocation, runner.IO{OutputBytes: 1 << 20})
	if err != nil {
		return nil, runner.Exit{}, err
	}
	state, err := enforcer.Observe(child.PID(), s.host)
	if err == nil {
		if verdict := enforcer.Check(plan, child.Expect(), state); !verdict.Held() {
			err = &mismatchError{errors.New("read-back at the gate: " + failedRows(verdict))}
		}
	}
	if err == nil {
		err = child.Release()
	}
	if err != nil {
		child.Abort()
		return nil, runner.Exit{}, err
	}
	started := child.Started(ctx)
	exit := child.Wait(ctx)
	switch {
	case !exit.Known || exit.Killed:
		return nil, exit, errors.Join(errors.New("the probes didn't end in time"), started)
	case exit.Status.Signaled():
		// Reaped before anybody looked, it may seem to have died before its execve: nobody reads of a program that it may not. The acts that leave a
		// process alive come first, and they say that this program executes under this plan.
	case started != nil:
		return nil, exit, started
	}
	answers := map[string]string{}
	for line := range bytes.Lines(exit.Stdout.Data) {
		var answer runner.ProbeAnswer
		if err := json.Unmarshal(line, &answer); err != nil {
			return nil, exit, err
		}
		answers[answer.Act] = answer.Answer()
	}
	return answers, exit, nil
}

// proveFresh proves a plan in a sandbox of its own, whose ids take the place of the plan's.
func (s *Service) proveFresh(ctx context.Context, plan enforcer.Plan, root rootSpec) (planProof, error) {
	root.over = nil // no plan of an exec depends on that
	box, err := s.sandboxes.take(ctx, "", Self(), root)
	if err != nil {
		return planProof{}, err
	}
	defer s.sandboxes.putBack(box)
	if plan.SetIDs {
		plan.Identity = enforcer.Identity{UID: box.Plan().Child.UID, GID: box.Plan().Child.GID, Groups: []int{}}
	}
	return s.prove(ctx, box, plan)
}

// reprove proves the plans in use whose proof is missing or too old.
func (s *Service) reprove() {
	if s.config.ProbeInterval == 0 {
		return
	}
	for _, used := range s.proofs.stale(time.Now().Add(-s.config.ProbeInterval)) {
		if s.life.Err() != nil {
			return
		}
		if _, err := s.proveFresh(s.life, used.plan, used.root); err != nil && s.life.Err() == nil {
			s.logger.Warn("a plan in use isn't proven by probes", "plan", used.digest, "error", err)
		}
	}
}

func defaultRequest() policy.Request {
	return policy.Request{Action: policy.ActionExec, Caller: Self(), Command: policy.Command{Argv: []string{"true"}}}
}

// defaultPlan is the plan of a command that asks for nothing in particular, in that sandbox.
func (s *Service) defaultPlan(ctx context.Context, box *sandbox) (enforcer.Plan, error) {
	decision := s.prover().Decide(ctx, defaultRequest())
	if !decision.Allow {
		return enforcer.Plan{}, &deniedError{decision.Reasons}
	}
	return enforcer.Build(decision, s.host, box.Plan(), s.profiles)
}
