package sandboxd.exec_test

import data.sandboxd
import data.sandboxd.exec
import data.sandboxd.fixture

test_a_terminal_is_for_who_may if {
	asked := fixture.with_command({"terminal": true})
	sandboxd.decision.allow with input as asked with data.settings.exec.terminals as true
	every setting in [false, null, "true", 1] {
		decision := sandboxd.decision with input as asked with data.settings.exec.terminals as setting
		not decision.allow
		some reason in decision.reasons
		reason.rule == "exec.terminal"
		reason.field == "command.terminal"
	}
}

test_pipes_need_nobody_s_leave if {
	sandboxd.decision.allow with input as fixture.with_command({}) with data.settings.exec.terminals as false
}

test_a_terminal_that_is_no_truth_proves_nothing if {
	every value in ["false", 0, null] {
		proven := exec.proven with input as fixture.with_command({"terminal": value}) with data.settings.exec.terminals as false
		not "exec.terminal" in proven
	}
}
