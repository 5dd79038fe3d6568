package sandboxd.exec

# METADATA
# title: No terminal
# description: The program's standard streams are pipes.
# labels:
#   rule: exec.terminal
proven contains "exec.terminal" if input.command.terminal == false

# METADATA
# title: A terminal where they are allowed
# description: Somebody sits at the program, and what is typed is on no record. Data, settings.exec.terminals, says whether that may be.
# labels:
#   rule: exec.terminal
proven contains "exec.terminal" if {
	input.action == "exec"
	input.command.terminal == true
	data.settings.exec.terminals == true
}

# METADATA
# title: Terminals not allowed
# description: Programs have pipes for their standard streams unless data, settings.exec.terminals, is true.
# labels:
#   rule: exec.terminal
deny contains reason if {
	input.command.terminal
	not data.settings.exec.terminals == true
	reason := {
		"rule": "exec.terminal",
		"message": "Programs may have no terminal here; run single commands.",
		"field": "command.terminal",
	}
}
