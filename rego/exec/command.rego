# METADATA
# title: What is started
# description: >-
#   The command of an exec, or the program of a run. Rego sees arguments, the names of environment variables and the working directory; of
#   standard input, code, inputs and of the variables' values it sees sizes and digests at most, so that no secret can reach a message.
package sandboxd.exec

# METADATA
# title: An exec has a command
# description: And no program.
# labels:
#   rule: exec.shape
proven contains "exec.shape" if {
	input.action == "exec"
	count(input.command.argv) > 0
	input.program.language == ""
	input.program.codeBytes == 0
}

# METADATA
# title: A run has a program
# description: And no command.
# labels:
#   rule: exec.shape
proven contains "exec.shape" if {
	input.action == "run"
	count(input.command.argv) == 0
	input.program.language != ""
}

# METADATA
# title: A sandbox, its network and a file operation start nothing of the caller's
# description: They have neither a command nor a program.
# labels:
#   rule: exec.shape
proven contains "exec.shape" if {
	input.action in {"file", "network", "sandbox"}
	count(input.command.argv) == 0
	input.program.language == ""
	input.program.codeBytes == 0
}

# METADATA
# title: Sound arguments
# description: Not more than data, settings.exec.arguments; none has a NUL; the first is not empty.
# labels:
#   rule: exec.argv
proven contains "exec.argv" if {
	count(input.command.argv) <= data.settings.exec.arguments
	not input.command.argv[0] == ""
	not contains(concat("", input.command.argv), "\u0000")
}

# METADATA
# title: A program of the file system
# description: Not one that is reached through /proc, /sys or /dev, where a descriptor of another process could hide behind the name.
# labels:
#   rule: exec.program
proven contains "exec.program" if plain_program(input.command.argv[0])

# METADATA
# title: No program of the file system
# description: There is no command.
# labels:
#   rule: exec.program
proven contains "exec.program" if count(input.command.argv) == 0

# METADATA
# title: A known language
# description: The languages are in data, settings.exec.languages.
# labels:
#   rule: run.language
proven contains "run.language" if input.program.language in data.settings.exec.languages

# METADATA
# title: No language needed
# description: Nothing but a run has a language.
# labels:
#   rule: run.language
proven contains "run.language" if {
	input.action != "run"
	input.program.language == ""
}

# METADATA
# title: Unsound arguments
# description: No command, too many arguments, an empty program name or a NUL.
# labels:
#   rule: exec.argv
deny contains reason if {
	some message in bad_arguments
	reason := {"rule": "exec.argv", "message": message, "field": "command.argv"}
}

# METADATA
# title: Nothing to start
# description: An exec without a command.
# labels:
#   rule: exec.argv
bad_arguments contains "An exec needs a command: argv must have at least the program's name." if {
	input.action == "exec"
	count(input.command.argv) == 0
}

# METADATA
# title: Empty program name
# description: The first argument is empty.
# labels:
#   rule: exec.argv
bad_arguments contains "The first argument must name a program; it is empty." if input.command.argv[0] == ""

# METADATA
# title: Too many arguments
# description: More than data, settings.exec.arguments.
# labels:
#   rule: exec.argv
bad_arguments contains message if {
	count(input.command.argv) > data.settings.exec.arguments
	message := sprintf("A command may have at most %d arguments.", [data.settings.exec.arguments])
}

# METADATA
# title: NUL in an argument
# description: The kernel would cut the argument there.
# labels:
#   rule: exec.argv
bad_arguments contains "No argument may have a NUL." if {
	contains(concat("", input.command.argv), "\u0000")
}

# METADATA
# title: Program behind a magic link
# description: A program under a prefix of data, settings.exec.program_denied_prefixes, is refused.
# labels:
#   rule: exec.program
deny contains reason if {
	not plain_program(input.command.argv[0])
	reason := {
		"rule": "exec.program",
		"message": sprintf(
			"The program must be a file of the sandbox, by name or by a path without dots, and not under %s.",
			[concat(", ", data.settings.exec.program_denied_prefixes)],
		),
		"field": "command.argv[0]",
	}
}

# METADATA
# title: Language not allowed
# description: A language that data doesn't list is refused.
# labels:
#   rule: run.language
deny contains reason if {
	input.action == "run"
	not input.program.language in data.settings.exec.languages
	reason := {
		"rule": "run.language",
		"message": sprintf("Programs may be in these languages: %s.", [concat(", ", data.settings.exec.languages)]),
		"field": "program.language",
	}
}

# METADATA
# title: A name that is looked up in PATH
# description: PATH has directories of the sandbox only.
# labels:
#   rule: exec.program
plain_program(program) if not contains(program, "/")

# METADATA
# title: A plain path
# description: It leads where it says, and that is under no denied prefix.
# labels:
#   rule: exec.program
plain_program(program) if {
	contains(program, "/")
	path := absolute(program)
	clean_path(path)
	not strings.any_prefix_match(path, data.settings.exec.program_denied_prefixes)
}

# METADATA
# title: An absolute path
# description: As it stands.
# labels:
#   rule: exec.program
absolute(path) := path if startswith(path, "/")

# METADATA
# title: A relative path
# description: It starts at the working directory; a leading "./" is common and harmless.
# labels:
#   rule: exec.program
absolute(path) := concat("/", [trim_suffix(directory, "/"), trim_prefix(path, "./")]) if not startswith(path, "/")

# METADATA
# title: The working directory
# description: The one that was asked for.
# labels:
#   rule: exec.cwd
directory := input.command.cwd if input.command.cwd != ""

# METADATA
# title: The default working directory
# description: The sandbox's.
# labels:
#   rule: exec.cwd
directory := "/work" if input.command.cwd == ""
