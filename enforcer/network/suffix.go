package network

import (
	"fmt"

	"golang.org/x/net/publicsuffix"

	"github.com/sandboxd/sandboxd/policy"
)

// Check says what no spec may be, beyond what [policy.NetworkSpec.Validate] knows: an allow of everything beneath a public suffix, by the list of
// publicsuffix.org. Beneath *.co.uk, where registries sell names, and beneath *.github.io, where a company gives them away, anybody may have one,
// so that such a rule allows everybody; both sections of the list count. To deny such names is fine. The error is a *[policy.FieldError].
func Check(spec policy.NetworkSpec) error {
	if err := spec.Validate(); err != nil {
		return err
	}
	for i, rule := range spec.Egress {
		target, err := policy.ParseTarget(rule.Target)
		if err != nil {
			return err
		}
		if !target.Wildcard || rule.Action != policy.NetworkAllow {
			continue
		}
		if suffix, _ := publicsuffix.PublicSuffix(target.Name); suffix == target.Name {
			return &policy.FieldError{
				Field:   fmt.Sprintf("network.egress[%d].target", i),
				Message: fmt.Sprintf("%q is everything beneath a public suffix, where anybody may have a name; want *.name with a name of its owner's", rule.Target),
			}
		}
	}
	return nil
}
