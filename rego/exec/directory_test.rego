package sandboxd.exec_test

import data.sandboxd.exec
import data.sandboxd.fixture

test_directories_that_are_denied if {
	every path in [
		"work", "/proc", "/proc/self/fd/7", "/proc/self/fd/7/../../", "/work/..", "/work/./x", "//proc", "/sys/fs", "/dev/fd", "/a\u0000b",
	] {
		denied_rules({"cwd": path}) == {"exec.cwd"}
		proven := exec.proven with input as fixture.with_command({"cwd": path})
		not "exec.cwd" in proven
	}
}

test_directories_that_pass if {
	every path in ["", "/", "/work", "/work/a/", "/tmp", "/processes", "/work/..x"] {
		denied_rules({"cwd": path}) == set()
		proven := exec.proven with input as fixture.with_command({"cwd": path})
		"exec.cwd" in proven
	}
}

test_directory_of_a_program_is_judged_too if {
	denied := exec.deny with input as object.union(fixture.program, {"program": {"cwd": "/proc"}})
	some reason in denied
	reason.field == "program.cwd"
}

test_change_takes_the_directory_out if {
	denied := exec.deny with input as fixture.with_command({"cwd": "/proc"})
	some reason in denied
	reason.change == {"op": "remove", "field": "command.cwd"}
}
