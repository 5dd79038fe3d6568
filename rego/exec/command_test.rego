package sandboxd.exec_test

import data.sandboxd.exec
import data.sandboxd.fixture

denied_rules(asked) := fixture.rules(denied) if {
	denied := exec.deny with input as fixture.with_command(asked)
}

everything := {"exec.argv", "exec.cwd", "exec.env", "exec.program", "exec.shape", "exec.terminal", "run.language"}

test_plain_command_is_proven if {
	proven := exec.proven with input as fixture.request
	proven == everything
	denied := exec.deny with input as fixture.request
	denied == set()
}

test_program_is_proven if {
	proven := exec.proven with input as fixture.program
	proven == everything
}

test_sandbox_is_proven if {
	proven := exec.proven with input as object.union(fixture.with_command({"argv": []}), {"action": "sandbox"})
	proven == everything
}

test_network_is_proven if {
	proven := exec.proven with input as object.union(fixture.with_command({"argv": []}), {"action": "network"})
	proven == everything
}

test_network_with_a_command_is_not if {
	proven := exec.proven with input as object.union(fixture.request, {"action": "network"})
	not "exec.shape" in proven
}

test_sandbox_with_a_command_is_not if {
	proven := exec.proven with input as object.union(fixture.request, {"action": "sandbox"})
	not "exec.shape" in proven
}

test_exec_with_a_program_is_not if {
	proven := exec.proven with input as object.union(fixture.program, {"action": "exec"})
	not "exec.shape" in proven
}

test_run_with_a_command_is_not if {
	proven := exec.proven with input as object.union(fixture.program, {"command": {"argv": ["ls"]}})
	not "exec.shape" in proven
}

test_unsound_arguments_are_denied if {
	every _, argv in {"none": [], "empty program": [""], "NUL": ["ls", "a\u0000b"], "too many": ["a", "b", "c", "d"]} {
		request := fixture.with_command({"argv": argv})
		denied := exec.deny with input as request with data.settings.exec.arguments as 3
		"exec.argv" in fixture.rules(denied)
		proven := exec.proven with input as request with data.settings.exec.arguments as 3
		count({"exec.argv", "exec.shape"} - proven) > 0
	}
}

test_empty_later_argument_is_fine if denied_rules({"argv": ["printf", ""]}) == set()

test_magic_programs_are_denied if {
	every program in [
		"/proc/self/exe", "/proc/1/root/bin/sh", "/dev/fd/3", "/dev/stdin", "/sys/x", "/usr/../proc/self/exe", "//proc/self/exe",
		"/./proc/self/exe", "../proc/self/exe", "./../proc/self/exe",
	] {
		denied_rules({"argv": [program]}) == {"exec.program"}
		proven := exec.proven with input as fixture.with_command({"argv": [program]})
		not "exec.program" in proven
	}
}

test_magic_words_as_arguments_are_fine if denied_rules({"argv": ["cat", "/proc/self/status"]}) == set()

test_other_programs_pass if {
	every program in ["ls", "/usr/bin/env", "./a.out", "bin/x", "dev/build.sh", "/work/process"] {
		denied_rules({"argv": [program]}) == set()
	}
}

test_unknown_language_is_denied if {
	denied := exec.deny with input as object.union(fixture.program, {"program": {"language": "ruby"}})
	fixture.rules(denied) == {"run.language"}
}

test_relative_program_starts_at_the_working_directory if {
	denied_rules({"argv": ["proc/self/exe"], "cwd": "/"}) == {"exec.program"}
	denied_rules({"argv": ["proc/self/exe"], "cwd": "/work"}) == set()
}
