package sandboxd.context

# METADATA
# title: The root can't be written
# description: readOnlyRootFilesystem is true. Kubernetes leaves this to its users; here nothing needs a writable root.
# labels:
#   rule: context.readOnlyRootFilesystem
proven contains "context.readOnlyRootFilesystem" if input.securityContext.readOnlyRootFilesystem == true

# METADATA
# title: The root is an image's, and private
# description: What is written to it is this sandbox's alone and ends with it. data, settings.image.writable_root, may refuse that.
# labels:
#   rule: context.readOnlyRootFilesystem
proven contains "context.readOnlyRootFilesystem" if private_root

# METADATA
# title: /proc is masked
# description: procMount is in data, settings.context.proc_mounts.
# labels:
#   rule: context.procMount
proven contains "context.procMount" if input.securityContext.procMount in data.settings.context.proc_mounts

# METADATA
# title: Writable root
# description: readOnlyRootFilesystem false is refused, but for the private root of an image.
# labels:
#   rule: context.readOnlyRootFilesystem
deny contains reason if {
	input.securityContext.readOnlyRootFilesystem != true
	not private_root
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

# METADATA
# title: A private root
# description: That of an image, where policy lets it be written.
# labels:
#   rule: context.readOnlyRootFilesystem
private_root if {
	input.securityContext.readOnlyRootFilesystem == false
	input.image.name != ""
	data.settings.image.writable_root == true
}
