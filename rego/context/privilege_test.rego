package sandboxd.context_test

import data.sandboxd.context
import data.sandboxd.fixture

test_safe_context_is_proven_whole if {
	proven := context.proven with input as fixture.request
	count(proven) == 11
	denied := context.deny with input as fixture.request
	denied == set()
}

test_privileged_is_denied if {
	request := fixture.with_context({"privileged": true})
	denied := context.deny with input as request
	fixture.rules(denied) == {"context.privileged"}
	proven := context.proven with input as request
	not "context.privileged" in proven
}

test_privilege_escalation_is_denied if {
	request := fixture.with_context({"allowPrivilegeEscalation": true})
	denied := context.deny with input as request
	fixture.rules(denied) == {"context.allowPrivilegeEscalation"}
	proven := context.proven with input as request
	not "context.allowPrivilegeEscalation" in proven
}
