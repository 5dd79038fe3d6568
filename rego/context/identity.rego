package sandboxd.context

# METADATA
# title: Must not run as root
# description: runAsNonRoot is true.
# labels:
#   rule: context.runAsNonRoot
proven contains "context.runAsNonRoot" if input.securityContext.runAsNonRoot == true

# METADATA
# title: The sandbox's own user
# description: No user was asked for.
# labels:
#   rule: context.runAsUser
proven contains "context.runAsUser" if input.securityContext.runAsUser == null

# METADATA
# title: An allowed user
# description: The user is not root and is in a range of data, settings.context.users.
# labels:
#   rule: context.runAsUser
proven contains "context.runAsUser" if in_ranges(input.securityContext.runAsUser, data.settings.context.users)

# METADATA
# title: The sandbox's own group
# description: No group was asked for.
# labels:
#   rule: context.runAsGroup
proven contains "context.runAsGroup" if input.securityContext.runAsGroup == null

# METADATA
# title: An allowed group
# description: The group is not root's and is in a range of data, settings.context.groups.
# labels:
#   rule: context.runAsGroup
proven contains "context.runAsGroup" if in_ranges(input.securityContext.runAsGroup, data.settings.context.groups)

# METADATA
# title: Allowed supplemental groups
# description: Each is not root's and is in a range of data, settings.context.groups.
# labels:
#   rule: context.supplementalGroups
proven contains "context.supplementalGroups" if {
	every group in input.securityContext.supplementalGroups {
		in_ranges(group, data.settings.context.groups)
	}
}

# METADATA
# title: May run as root
# description: runAsNonRoot false is refused.
# labels:
#   rule: context.runAsNonRoot
deny contains reason if {
	input.securityContext.runAsNonRoot != true
	reason := {
		"rule": "context.runAsNonRoot",
		"message": "Nothing runs as root; runAsNonRoot must be true or absent.",
		"field": "securityContext.runAsNonRoot",
		"change": {"op": "remove", "field": "securityContext.runAsNonRoot"},
	}
}

# METADATA
# title: User not allowed
# description: Root, or a user in no range of data, settings.context.users.
# labels:
#   rule: context.runAsUser
deny contains reason if {
	input.securityContext.runAsUser != null
	not in_ranges(input.securityContext.runAsUser, data.settings.context.users)
	reason := {
		"rule": "context.runAsUser",
		"message": "Root and unlisted users are not allowed; leave runAsUser out for the sandbox's own user, or take one that policy lists.",
		"field": "securityContext.runAsUser",
		"change": {"op": "remove", "field": "securityContext.runAsUser"},
	}
}

# METADATA
# title: Group not allowed
# description: Root's group, or a group in no range of data, settings.context.groups.
# labels:
#   rule: context.runAsGroup
deny contains reason if {
	input.securityContext.runAsGroup != null
	not in_ranges(input.securityContext.runAsGroup, data.settings.context.groups)
	reason := {
		"rule": "context.runAsGroup",
		"message": "Root's group and unlisted groups are not allowed; leave runAsGroup out for the sandbox's own group, or take one that policy lists.",
		"field": "securityContext.runAsGroup",
		"change": {"op": "remove", "field": "securityContext.runAsGroup"},
	}
}

# METADATA
# title: Supplemental group not allowed
# description: Root's group, or a group in no range of data, settings.context.groups.
# labels:
#   rule: context.supplementalGroups
deny contains reason if {
	kept := [group | some group in input.securityContext.supplementalGroups; in_ranges(group, data.settings.context.groups)]
	count(kept) < count(input.securityContext.supplementalGroups)
	reason := {
		"rule": "context.supplementalGroups",
		"message": "Root's group and unlisted groups are not allowed; supplementalGroups may only have groups that policy lists.",
		"field": "securityContext.supplementalGroups",
		"change": {"op": "set", "field": "securityContext.supplementalGroups", "value": kept},
	}
}

# METADATA
# title: An id in one of the ranges
# description: Both ends of a range belong to it. 0 is root and is in no range, whatever data says.
# labels:
#   rule: context.runAsUser
in_ranges(id, ranges) if {
	id > 0
	some range in ranges
	id >= range.from
	id <= range.to
}
