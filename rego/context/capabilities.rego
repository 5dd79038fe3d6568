package sandboxd.context

# METADATA
# title: No capability beyond those listed
# description: Each added capability is in data, settings.context.capabilities_add. Kubernetes would allow NET_BIND_SERVICE; sandboxd holds none.
# labels:
#   rule: context.capabilities.add
proven contains "context.capabilities.add" if {
	every name in input.securityContext.capabilities.add {
		name in data.settings.context.capabilities_add
	}
}

# METADATA
# title: All capabilities are dropped
# description: capabilities.drop has ALL.
# labels:
#   rule: context.capabilities.drop
proven contains "context.capabilities.drop" if "ALL" in input.securityContext.capabilities.drop

# METADATA
# title: Capability not allowed
# description: A capability that data doesn't list is refused.
# labels:
#   rule: context.capabilities.add
deny contains reason if {
	asked := input.securityContext.capabilities.add
	kept := [name | some name in asked; name in data.settings.context.capabilities_add]
	count(kept) < count(asked)
	reason := {
		"rule": "context.capabilities.add",
		"message": sprintf("These capabilities may be added: %s.", [capabilities]),
		"field": "securityContext.capabilities.add",
		"change": keep_capabilities(kept),
	}
}

# METADATA
# title: Capabilities kept
# description: A context that drops less than ALL is refused.
# labels:
#   rule: context.capabilities.drop
deny contains reason if {
	not "ALL" in input.securityContext.capabilities.drop
	reason := {
		"rule": "context.capabilities.drop",
		"message": "All capabilities must be dropped; capabilities.drop must have ALL.",
		"field": "securityContext.capabilities.drop",
		"change": {"op": "set", "field": "securityContext.capabilities.drop", "value": ["ALL"]},
	}
}

# METADATA
# title: Nothing left to add
# description: The change that takes the field out.
# labels:
#   rule: context.capabilities.add
keep_capabilities(kept) := {"op": "remove", "field": "securityContext.capabilities.add"} if count(kept) == 0

# METADATA
# title: Something left to add
# description: The change that leaves what is allowed.
# labels:
#   rule: context.capabilities.add
keep_capabilities(kept) := {"op": "set", "field": "securityContext.capabilities.add", "value": kept} if count(kept) > 0

# METADATA
# title: The allowed capabilities in words
# description: For messages.
# labels:
#   rule: context.capabilities.add
capabilities := concat(", ", data.settings.context.capabilities_add) if count(data.settings.context.capabilities_add) > 0

# METADATA
# title: No capabilities
# description: For messages.
# labels:
#   rule: context.capabilities.add
capabilities := "none" if count(data.settings.context.capabilities_add) == 0
