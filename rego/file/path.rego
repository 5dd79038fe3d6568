# METADATA
# title: Files of a sandbox
# description: >-
#   What may be done with which file. The operation runs as a confined child inside of the sandbox, which follows no link unless that is asked for; these
#   rules say where it may go at all.
package sandboxd.file

# METADATA
# title: No file
# description: Nothing but a file operation has one.
# labels:
#   rule: file.operation
proven contains label if {
	input.action != "file"
	input.file == {"operation": "", "path": "", "mode": null, "parents": false, "follow": false, "to": ""}
	some label in {"file.operation", "file.path"}
}

# METADATA
# title: An allowed operation
# description: The operations are in data, settings.file.operations.
# labels:
#   rule: file.operation
proven contains "file.operation" if {
	input.action == "file"
	input.file.operation in data.settings.file.operations
}

# METADATA
# title: A plain path under a root
# description: The roots are in data, settings.file.roots. A relative path begins in /work.
# labels:
#   rule: file.path
proven contains "file.path" if {
	input.action == "file"
	not input.file.follow
	input.file.to == ""
	clean_path(absolute)
	some root in data.settings.file.roots
	beneath(absolute, root)
}

# METADATA
# title: Where one that follows links begins
# description: >-
#   A link leads wherever a command of the sandbox could go as well, so that these roots, in data, settings.file.followed_roots, say where it begins, and
#   the sandbox where it ends. An empty list refuses all that follow links.
# labels:
#   rule: file.path
proven contains "file.path" if {
	input.action == "file"
	input.file.follow
	every path in followed {
		begins_well(path)
	}
}

# METADATA
# title: The paths of one that follows links
# description: That of the file, and where it is moved.
# labels:
#   rule: file.path
followed := {path | some path in [absolute, input.file.to]; path != ""}

# METADATA
# title: A good beginning
# description: A clean path beneath one of the roots for those that follow links.
# labels:
#   rule: file.path
begins_well(path) if {
	clean_path(trim_suffix(path, "/"))
	startswith(path, "/")
	some root in data.settings.file.followed_roots
	beneath(path, root)
}

# METADATA
# title: Operation not allowed
# description: An operation that isn't listed in data, settings.file.operations, is refused.
# labels:
#   rule: file.operation
deny contains reason if {
	input.action == "file"
	not input.file.operation in data.settings.file.operations
	reason := {
		"rule": "file.operation",
		"message": sprintf("This operation is not allowed; allowed are: %s.", [concat(", ", data.settings.file.operations)]),
		"field": "file.operation",
	}
}

# METADATA
# title: Path not allowed
# description: A path with dots leads somewhere else than it says; one outside of the roots isn't the caller's.
# labels:
#   rule: file.path
deny contains reason if {
	input.action == "file"
	not "file.path" in proven
	roots := {true: data.settings.file.followed_roots, false: data.settings.file.roots}[input.file.follow]
	reason := {
		"rule": "file.path",
		"message": sprintf(
			"The path must lie under %s, with no empty part, \".\" or \"..\"; a relative one begins in /work.",
			[concat(" or ", roots)],
		),
		"field": "file.path",
	}
}

# METADATA
# title: The path in the sandbox
# description: A relative one begins in /work.
# labels:
#   rule: file.path
absolute := input.file.path if startswith(input.file.path, "/")

# METADATA
# title: A relative path in the sandbox
# description: It begins in /work.
# labels:
#   rule: file.path
absolute := concat("/", ["/work", input.file.path]) if not startswith(input.file.path, "/")

# METADATA
# title: Beneath a directory
# description: The directory itself is.
# labels:
#   rule: file.path
beneath(path, path)

# METADATA
# title: Further beneath a directory
# description: A longer path that begins with it.
# labels:
#   rule: file.path
beneath(path, root) if startswith(path, concat("", [trim_suffix(root, "/"), "/"]))

# METADATA
# title: A clean path
# description: No part is empty, "." or "..", and there is no NUL.
# labels:
#   rule: file.path
clean_path(path) if {
	not contains(path, "//")
	not contains(path, "\u0000")
	not endswith(path, "/")
	parts := split(path, "/")
	not "." in parts
	not ".." in parts
}
