package sandboxd_test

import data.sandboxd
import data.sandboxd.fixture

test_plain_command_passes if {
	sandboxd.decision.allow with input as fixture.request
	sandboxd.decision.reasons == set() with input as fixture.request
}

test_python_program_passes if sandboxd.decision.allow with input as fixture.program

test_empty_input_proves_nothing if {
	decision := sandboxd.decision with input as {}
	not decision.allow
	sandboxd.required & fixture.rules(decision.reasons) == sandboxd.required
}

test_unknown_action_is_denied if {
	asked := object.union(fixture.request, {"action": "teleport"})
	decision := sandboxd.decision with input as asked
	not decision.allow
	"main.action" in fixture.rules(decision.reasons)
}

test_no_actions_in_data_denies if {
	not sandboxd.decision.allow with input as fixture.request with data.settings.actions as []
}

test_a_lost_rule_denies if {
	decision := sandboxd.decision with input as fixture.request with data.sandboxd.network.proven as set()
	not decision.allow
	fixture.rules(decision.reasons) == {"network.egress"}
}

test_a_reason_denies_even_when_all_is_proven if {
	spoke := {{"rule": "caller.uid", "message": "No.", "field": "caller.uid"}}
	decision := sandboxd.decision with input as fixture.request with data.sandboxd.caller.deny as spoke
	not decision.allow
	decision.reasons == spoke
}

test_all_reasons_are_told if {
	asked := object.union(fixture.with_context({"privileged": true}), {"limits": {"pids": 1000000}})
	decision := sandboxd.decision with input as asked
	fixture.rules(decision.reasons) == {"context.privileged", "limits.maximum"}
}
