package sandboxd.exec_test

import data.sandboxd.exec
import data.sandboxd.fixture

test_denied_names if {
	every name in [
		"LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "GCONV_PATH", "BASH_ENV", "ENV", "BASH_FUNC_ls%%", "PYTHONSTARTUP", "PYTHONHOME",
		"PERL5OPT", "NODE_OPTIONS", "GIT_SSH_COMMAND", "GIT_CONFIG_COUNT", "https_proxy", "HTTPS_PROXY", "GLIBC_TUNABLES", "", "A=B",
	] {
		denied_rules({"envNames": ["HOME", name]}) == {"exec.env"}
		proven := exec.proven with input as fixture.with_command({"envNames": ["HOME", name]})
		not "exec.env" in proven
	}
}

test_other_names_pass if {
	every name in ["HOME", "PATH", "LANG", "TMPDIR", "PYTHONPATH", "PYTHONUNBUFFERED", "OLD_NAME", "A.B"] {
		denied_rules({"envNames": [name]}) == set()
	}
}

test_denied_in_a_program_too if {
	denied := exec.deny with input as object.union(fixture.program, {"program": {"envNames": ["LD_PRELOAD"]}})
	some reason in denied
	reason.field == "program.env.LD_PRELOAD"
	reason.change == {"op": "remove", "field": "program.env.LD_PRELOAD"}
}

test_data_may_list_a_name if {
	denied := exec.deny with input as fixture.with_command({"envNames": ["LD_PRELOAD"]})
		with data.settings.exec.env_allowed as ["LD_PRELOAD"]
	denied == set()
}

test_each_name_has_its_reason if {
	denied := exec.deny with input as fixture.with_command({"envNames": ["LD_PRELOAD", "BASH_ENV"]})
	count(denied) == 2
}

test_odd_name_is_quoted_in_the_path if {
	denied := exec.deny with input as fixture.with_command({"envNames": ["BASH_FUNC_ls%%"]})
	some reason in denied
	reason.field == "command.env[\"BASH_FUNC_ls%%\"]"
}
