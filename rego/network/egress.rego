# METADATA
# title: Where the sandbox may connect to
# description: >-
#   Nowhere, unless data lists the target. Only a spec that denies by default passes; each target that it allows must be in data,
#   settings.network.targets, spelt the same, with its ports.
package sandboxd.network

# METADATA
# title: Nothing leaves but to listed targets
# description: The default action is deny, and every allowed target is listed.
# labels:
#   rule: network.egress
proven contains "network.egress" if {
	input.network.defaultAction == "deny"
	every rule in input.network.egress {
		listed_or_denied(rule)
	}
}

# METADATA
# title: Allow by default
# description: A spec that lets everything out that no rule names is refused.
# labels:
#   rule: network.egress
deny contains reason if {
	input.network.defaultAction != "deny"
	reason := {
		"rule": "network.egress",
		"message": "The network must be closed by default; allowed is defaultAction \"deny\".",
		"field": "network.defaultAction",
		"change": {"op": "set", "field": "network.defaultAction", "value": "deny"},
	}
}

# METADATA
# title: Target not listed
# description: An egress rule that allows a target that isn't listed, or more of its ports than are listed, is refused.
# labels:
#   rule: network.egress
deny contains reason if {
	kept := [rule | some rule in input.network.egress; listed_or_denied(rule)]
	count(kept) < count(input.network.egress)
	reason := {
		"rule": "network.egress",
		"message": sprintf("Egress may only be allowed to these targets: %s.", [targets]),
		"field": "network.egress",
		"change": {"op": "set", "field": "network.egress", "value": [written(rule) | some rule in kept]},
	}
}

# METADATA
# title: A rule for all ports, as a request says it
# description: A body has no empty list of ports; it leaves them out.
# labels:
#   rule: network.egress
written(rule) := object.remove(rule, ["ports"]) if count(rule.ports) == 0

# METADATA
# title: A rule for some ports, as a request says it
# description: As it was asked.
# labels:
#   rule: network.egress
written(rule) := rule if count(rule.ports) > 0

# METADATA
# title: The targets in words
# description: For messages.
# labels:
#   rule: network.egress
targets := concat(", ", [entry.target | some entry in data.settings.network.targets]) if count(data.settings.network.targets) > 0

# METADATA
# title: No targets
# description: For messages.
# labels:
#   rule: network.egress
targets := "none" if count(data.settings.network.targets) == 0

# METADATA
# title: A rule that denies
# description: Denying more is always fine.
# labels:
#   rule: network.egress
listed_or_denied(rule) if rule.action == "deny"

# METADATA
# title: A rule that allows a listed target on any port
# description: An entry without ports lists all of them.
# labels:
#   rule: network.egress
listed_or_denied(rule) if {
	rule.action == "allow"
	some entry in data.settings.network.targets
	entry.target == rule.target
	count(entry.ports) == 0
}

# METADATA
# title: A rule that allows listed ports of a listed target
# description: A rule without ports asks for all of them.
# labels:
#   rule: network.egress
listed_or_denied(rule) if {
	rule.action == "allow"
	some entry in data.settings.network.targets
	entry.target == rule.target
	count(rule.ports) > 0
	every port in rule.ports {
		port in entry.ports
	}
}
