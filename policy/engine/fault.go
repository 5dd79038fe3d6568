package engine

import (
	"errors"
	"fmt"

	"github.com/open-policy-agent/opa/v1/topdown"

	"github.com/sandboxd/sandboxd/policy"
)

// The rules that the engine itself denies by.
const (
	ruleUndefined = "undefined_decision"
	ruleType      = "bad_decision_type"
	ruleConflict  = "eval_conflict_error"
	ruleError     = "policy_error"
	ruleTimeout   = "policy_timeout"
	ruleWidened   = "engine.widened"
	ruleInput     = "engine.input_too_large"
	ruleUnbound   = "engine.unbound"
)

// faultReason says why there is no answer. OPA's own message may repeat parts of the input, so only code and place are told.
func faultReason(err error) policy.Reason {
	switch {
	case errors.Is(err, errTimeout):
		return policy.Reason{Rule: ruleTimeout, Message: "The policy did not answer within its deadline; nothing is allowed without an answer."}
	case errors.Is(err, errUndefined):
		return policy.Reason{Rule: ruleUndefined, Message: "The policy's decision is undefined for this request; a decision must always be defined."}
	}
	reason := policy.Reason{Rule: ruleError, Message: "The policy failed; nothing is allowed without an answer."}
	var evaluation *topdown.Error
	if errors.As(err, &evaluation) {
		if evaluation.Code == topdown.ConflictErr {
			reason.Rule = ruleConflict
		}
		reason.Message = fmt.Sprintf("The policy failed with %s; nothing is allowed without an answer.", evaluation.Code)
		if evaluation.Location != nil {
			reason.Message = fmt.Sprintf("The policy failed with %s at %s:%d; nothing is allowed without an answer.",
				evaluation.Code, evaluation.Location.File, evaluation.Location.Row)
		}
	}
	return reason
}
