package execd

import (
	"net/http"

	"github.com/sandboxd/sandboxd/policy"
)

// NetworkReply is a sandbox's way out: what is wanted, and what was proven of it just now.
type NetworkReply struct {
	Sandbox string `json:"sandbox"`
	// Mode is how it is held: "relay", every connection goes through the daemon; "none", there is no way out at all.
	Mode string `json:"mode"`
	// Network is in force: what policy made of what was asked. Running execs may have made it tighter for the time being.
	Network policy.NetworkSpec `json:"network"`
	// Wanted is what was asked for last, Proven what the read-back found in force.
	Wanted NetworkRevision `json:"wanted"`
	Proven NetworkRevision `json:"proven"`
	// TightenedBy are the execs that run and let out less.
	TightenedBy []string `json:"tightenedBy"`
	// Connections are open now.
	Connections int64 `json:"connections"`
	Verdict     Proof `json:"verdict"`
	// Decision and AuditSequence are of a change only.
	Decision      *policy.Decision `json:"decision,omitempty"`
	AuditSequence int64            `json:"auditSequence,omitzero"`
}

// NetworkRevision names rules.
type NetworkRevision struct {
	// Generation counts the changes of a sandbox's network; 0 is how it was made.
	Generation int64  `json:"generation"`
	Digest     string `json:"digest"`
}

// The modes of a network.
const (
	networkRelay = "relay"
	networkNone  = "none"
)

func (n *networkWalk) reply() NetworkReply {
	reply := networkReply(n.box, n.verdict)
	reply.Decision, reply.AuditSequence = &n.decision, n.sequence
	return reply
}

func networkReply(box *sandbox, verdict policy.Verdict) NetworkReply {
	reply := NetworkReply{
		Sandbox: box.id, Mode: networkNone, Network: closedRules.Spec(), TightenedBy: []string{}, Verdict: proofOf(verdict, verdict.Digest(), false),
		Wanted: NetworkRevision{Digest: closedRules.Digest()},
	}
	if out := box.outlet; out != nil {
		rules, generation := out.rules()
		reply.Mode, reply.Network, reply.TightenedBy = networkRelay, rules.Spec(), out.tightenedBy()
		reply.Wanted = NetworkRevision{generation, rules.Digest()}
		reply.Connections = out.stats().Live
	}
	if verdict.Held() {
		reply.Proven = reply.Wanted
	}
	return reply
}

// getNetwork reads the sandbox back before it answers: what it says is in force is, now.
func (s *Service) getNetwork(x *exchange) error {
	reply, err := s.Network(x.r.URL.Query().Get("sandbox"), x.caller)
	if err != nil {
		return err
	}
	x.answer(http.StatusOK, reply)
	return nil
}

// Network reads a sandbox of this caller back, its fence above all, and says what is in force. Whether that holds is in Verdict.
func (s *Service) Network(id string, caller policy.Caller) (NetworkReply, error) {
	box, err := s.sandboxes.join(id, caller)
	if err != nil {
		return NetworkReply{}, err
	}
	defer s.sandboxes.putBack(box)
	box.changing.Lock()
	defer box.changing.Unlock()
	verdict, err := verifyNetwork(box, nil)
	if err != nil {
		return NetworkReply{}, err
	}
	return networkReply(box, verdict), nil
}

func (s *Service) putNetwork(x *exchange) error {
	if err := s.open(); err != nil {
		return err
	}
	data, err := s.body(x)
	if err != nil {
		return err
	}
	request, err := ParseNetworkChange(x.r.URL.Query().Get("sandbox"), data)
	if err != nil {
		return err
	}
	request.Caller = x.caller
	reply, err := s.PutNetwork(x.r.Context(), request)
	if err != nil {
		return err
	}
	x.answer(http.StatusOK, reply)
	return nil
}
