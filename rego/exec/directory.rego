package sandboxd.exec

# METADATA
# title: A plain working directory
# description: None was asked for, or an absolute path that says where it leads and is not under data, settings.exec.cwd_denied.
# labels:
#   rule: exec.cwd
proven contains "exec.cwd" if {
	plain_directory(input.command.cwd)
	plain_directory(input.program.cwd)
}

# METADATA
# title: Working directory not allowed
# description: A directory of another process may hide behind /proc (CVE-2024-21626).
# labels:
#   rule: exec.cwd
deny contains reason if {
	some part in ["command", "program"]
	not plain_directory(input[part].cwd)
	field := concat(".", [part, "cwd"])
	reason := {
		"rule": "exec.cwd",
		"message": sprintf(
			"The working directory must be an absolute path without dots, and not %s or below; leave it out for /work.",
			[concat(", ", data.settings.exec.cwd_denied)],
		),
		"field": field,
		"change": {"op": "remove", "field": field},
	}
}

# METADATA
# title: None asked for
# description: The sandbox's work directory.
# labels:
#   rule: exec.cwd
plain_directory("")

# METADATA
# title: An allowed directory
# description: Absolute, clean, and not under a denied one.
# labels:
#   rule: exec.cwd
plain_directory(path) if {
	startswith(path, "/")
	clean_path(path)
	every denied in data.settings.exec.cwd_denied {
		path != denied
		not startswith(path, concat("", [denied, "/"]))
	}
}

# METADATA
# title: A clean path
# description: No part is empty, "." or "..", and there is no NUL.
# labels:
#   rule: exec.cwd
clean_path(path) if {
	not contains(path, "//")
	not contains(path, "\u0000")
	parts := split(path, "/")
	not "." in parts
	not ".." in parts
}
