package sandboxd.exec

# METADATA
# title: No variable that changes what runs
# description: Neither the command nor the program has a name that is denied and not listed as allowed.
# labels:
#   rule: exec.env
proven contains "exec.env" if {
	harmless(input.command.envNames)
	harmless(input.program.envNames)
}

# METADATA
# title: Variable not allowed
# description: A variable that makes a loader, a shell or an interpreter run something else than what was asked is refused, unless data lists it.
# labels:
#   rule: exec.env
deny contains reason if {
	some part in ["command", "program"]
	names := input[part].envNames
	not harmless(names)
	some name in names
	not harmless([name])
	field := path(part, name)
	reason := {
		"rule": "exec.env",
		"message": sprintf("The variable %q is not allowed (%s); leave it out.", [name, why(name)]),
		"field": field,
		"change": {"op": "remove", "field": field},
	}
}

# METADATA
# title: Harmless names
# description: >-
#   Those that data lists, settings.exec.env_allowed, are. Of the others none is in settings.exec.env_denied, is under a prefix of
#   settings.exec.env_denied_prefixes, is empty, or has an equals sign, which would end it early.
# labels:
#   rule: exec.env
harmless(names) if {
	others := [name | some name in names; not name in data.settings.exec.env_allowed]
	count(object.filter(data.settings.exec.env_denied, others)) == 0
	not strings.any_prefix_match(others, data.settings.exec.env_denied_prefixes)
	not "" in others
	not contains(concat(" ", others), "=")
}

# METADATA
# title: Why a name is denied
# description: In the words of data, settings.exec.env_denied.
# labels:
#   rule: exec.env
why(name) := data.settings.exec.env_denied[name]

# METADATA
# title: Why a name under a denied prefix is denied
# description: The same for all of them.
# labels:
#   rule: exec.env
why(name) := "names that begin so can change which code runs" if not data.settings.exec.env_denied[name]

# METADATA
# title: The path of a variable with a plain name
# description: As in program.env.LD_PRELOAD.
# labels:
#   rule: exec.env
path(part, name) := concat(".", [part, "env", name]) if regex.match(`^[A-Za-z0-9_]+$`, name)

# METADATA
# title: The path of a variable with another name
# description: As in program.env["BASH_FUNC_ls%%"].
# labels:
#   rule: exec.env
path(part, name) := sprintf("%s.env[%s]", [part, json.marshal(name)]) if not regex.match(`^[A-Za-z0-9_]+$`, name)
