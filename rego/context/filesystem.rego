package sandboxd.context

# METADATA
# title: The root can't be written
# description: readOnlyRootFilesystem is true. Kubernetes leaves this to its users; here nothing needs a writable root.
# labels:
#   rule: context.readOnlyRootFilesystem
proven contains "context.readOnlyRootFilesystem" if input.securityContext.readOnlyRootFilesystem == true

# METADATA
# title: /proc is masked
# description: procMount is in data, settings.context.proc_mounts.
# labels:
#   rule: context.procMount
proven contains "context.procMount" if input.securityContext.procMount in data.settings.context.proc_mounts

# METADATA
# title: Writable root
# description: readOnlyRootFilesystem false is refused.
# labels:
#   rule: context.readOnlyRootFilesystem
deny contains reason if {
	input.securityContext.readOnlyRootFilesystem != true
	reason := {
		"rule": "context.readOnlyRootFilesystem",
		"message": "The root must be read-only (/tmp and /work can be written); readOnlyRootFilesystem must be true or absent.",
		"field": "securityContext.readOnlyRootFilesystem",
		"change": {"op": "remove", "field": "securityContext.readOnlyRootFilesystem"},
	}
}

# METADATA
# title: Unmasked /proc
# description: A procMount that data doesn't list is refused.
# labels:
#   rule: context.procMount
deny contains reason if {
	not input.securityContext.procMount in data.settings.context.proc_mounts
	reason := {
		"rule": "context.procMount",
		"message": sprintf("procMount must be one of these: %s.", [concat(", ", data.settings.context.proc_mounts)]),
		"field": "securityContext.procMount",
		"change": {"op": "remove", "field": "securityContext.procMount"},
	}
}
