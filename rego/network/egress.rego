# METADATA
# title: Where the sandbox may connect to
# description: >-
#   Nowhere, unless data lists the target. Only a spec that denies by default passes, unless settings.network.default_actions in data lists "allow":
#   then what no rule names is let out, and every target may be allowed. Else each target that is allowed must be covered by
#   settings.network.targets, on each of its ports: a list of {"target", "ports"}, where no ports are all of them. An entry covers
#   itself; *.example.com all that is beneath it, and not example.com; a prefix the addresses and prefixes in it. What lies in a range that only
#   who names it opens, such as a private one, takes an entry of its own in any case.
package sandboxd.network

# METADATA
# title: Nothing leaves but to listed targets
# description: The default action is one of those in data, deny unless it says otherwise, and every allowed target is listed.
# labels:
#   rule: network.egress
proven contains "network.egress" if {
	input.network.defaultAction in default_actions
	datagrams_as_listed
	every rule in input.network.egress {
		listed_or_denied(rule)
	}
}

# METADATA
# title: The default actions that may be asked for
# description: Deny alone, unless data says otherwise.
# labels:
#   rule: network.egress
default_actions := object.get(data.settings.network, "default_actions", ["deny"])

# METADATA
# title: No datagrams
# description: A spec without them is fine.
# labels:
#   rule: network.egress
datagrams_as_listed if input.network.datagrams == false

# METADATA
# title: Datagrams where data lets them out
# description: Where settings.network.datagrams in data is true. They go where the rules of the spec let connections go.
# labels:
#   rule: network.egress
datagrams_as_listed if {
	input.network.datagrams == true
	data.settings.network.datagrams == true
}

# METADATA
# title: Datagrams aren't let out
# description: A spec that asks for them is refused, unless data lets them out.
# labels:
#   rule: network.egress
deny contains reason if {
	not datagrams_as_listed
	reason := {
		"rule": "network.egress",
		"message": "Only connections may be let out, no datagrams.",
		"field": "network.datagrams",
		"change": {"op": "set", "field": "network.datagrams", "value": false},
	}
}

# METADATA
# title: Allow by default
# description: A spec that lets everything out that no rule names is refused, unless data lists that default action.
# labels:
#   rule: network.egress
deny contains reason if {
	not input.network.defaultAction in default_actions
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
targets := concat(", ", [in_words(entry) | some entry in data.settings.network.targets]) if count(data.settings.network.targets) > 0

# METADATA
# title: No targets
# description: For messages.
# labels:
#   rule: network.egress
targets := "none" if count(data.settings.network.targets) == 0

# METADATA
# title: An entry of all ports in words
# description: For messages.
# labels:
#   rule: network.egress
in_words(entry) := entry.target if count(entry.ports) == 0

# METADATA
# title: An entry in words
# description: For messages.
# labels:
#   rule: network.egress
in_words(entry) := sprintf("%s on %s", [entry.target, ports]) if {
	count(entry.ports) > 0
	ports := concat(", ", [format_int(port, 10) | some port in entry.ports])
}

# METADATA
# title: A rule that denies
# description: Denying more is always fine.
# labels:
#   rule: network.egress
listed_or_denied(rule) if rule.action == "deny"

# METADATA
# title: A rule that allows what is let out by default
# description: Who may have everything that no rule names may name it. What lies in a closed range isn't let out by default, and takes an entry.
# labels:
#   rule: network.egress
listed_or_denied(rule) if {
	rule.action == "allow"
	"allow" in default_actions
	not closed_range(rule.target)
}

# METADATA
# title: An address or prefix in a closed range
# description: Names are none.
# labels:
#   rule: network.egress
closed_range(target) if {
	inner := prefix(target)
	some closed in ranges
	contains(closed, ":") == contains(inner, ":")
	net.cidr_contains(closed, inner)
}

# METADATA
# title: A rule that allows a listed target on any port
# description: Only an entry without ports lists all of them.
# labels:
#   rule: network.egress
listed_or_denied(rule) if {
	rule.action == "allow"
	some entry in data.settings.network.targets
	count(entry.ports) == 0
	covers(entry.target, rule.target)
}

# METADATA
# title: A rule that allows listed ports of a listed target
# description: Each port has an entry; a rule without ports asks for all of them.
# labels:
#   rule: network.egress
listed_or_denied(rule) if {
	rule.action == "allow"
	count(rule.ports) > 0
	every port in rule.ports {
		some entry in data.settings.network.targets
		has_port(entry, port)
		covers(entry.target, rule.target)
	}
}

# METADATA
# title: An entry of all ports
# description: It has every port.
# labels:
#   rule: network.egress
has_port(entry, _) if count(entry.ports) == 0

# METADATA
# title: An entry with ports
# description: It has those.
# labels:
#   rule: network.egress
has_port(entry, port) if port in entry.ports

# METADATA
# title: An entry covers itself
# description: Spelt the same.
# labels:
#   rule: network.egress
covers(entry, target) if entry == target

# METADATA
# title: A wildcard covers what is beneath it
# description: Names and wildcards of one more label or several. What isn't *.name covers nothing.
# labels:
#   rule: network.egress
covers(entry, target) if {
	regex.match(`^\*\.([a-z0-9_-]+\.)*[a-z0-9_-]*[a-z][a-z0-9_-]*$`, entry)
	endswith(target, trim_prefix(entry, "*"))
}

# METADATA
# title: A prefix covers what lies in it
# description: Not a closed range, unless the entry lies in that range too and so names it.
# labels:
#   rule: network.egress
covers(entry, target) if {
	net.cidr_is_valid(entry)
	inner := prefix(target)
	contains(entry, ":") == contains(inner, ":")
	net.cidr_contains(entry, inner)
	every closed in ranges {
		same_side(closed, entry, inner)
	}
}

# METADATA
# title: Both in a closed range
# description: Whoever lists a part of a range opens that part.
# labels:
#   rule: network.egress
same_side(closed, entry, _) if net.cidr_contains(closed, entry)

# METADATA
# title: Not in a closed range
# description: Such a prefix opens nothing of it.
# labels:
#   rule: network.egress
same_side(closed, _, inner) if not net.cidr_contains(closed, inner)

# METADATA
# title: A prefix
# description: As it is.
# labels:
#   rule: network.egress
prefix(target) := target if net.cidr_is_valid(target)

# METADATA
# title: An IPv4 address
# description: The prefix of its whole length.
# labels:
#   rule: network.egress
prefix(target) := whole if {
	not contains(target, ":")
	whole := concat("/", [target, "32"])
	net.cidr_is_valid(whole)
}

# METADATA
# title: An IPv6 address
# description: The prefix of its whole length.
# labels:
#   rule: network.egress
prefix(target) := whole if {
	contains(target, ":")
	whole := concat("/", [target, "128"])
	net.cidr_is_valid(whole)
}

# METADATA
# title: Ranges that aren't public
# description: >-
#   Private, link-local, reserved and others, as sandboxd closes them (sandboxd's own list is policy/class.go; a test holds them equal). Some
#   of them can't be opened by anything.
# labels:
#   rule: network.egress
ranges := [
	"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24",
	"192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
	"255.255.255.255/32", "::/3", "::/96", "::/128", "::1/128", "::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96",
	"64:ff9b:1::/48", "100::/64", "2001::/23", "2001::/32", "2001:2::/48", "2001:db8::/32", "2002::/16", "3fff::/20", "4000::/2",
	"8000::/1", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8", "169.254.169.254/32", "169.254.169.253/32", "169.254.169.123/32",
	"169.254.170.2/32", "169.254.170.23/32", "169.254.169.250/32", "169.254.0.23/32", "169.254.42.42/32", "100.100.100.200/32",
	"168.63.129.16/32", "192.0.0.192/32", "192.80.8.124/32", "fd00:ec2::254/128", "fd00:ec2::253/128", "fd00:ec2::123/128",
	"fd00:ec2::23/128", "fd20:ce::254/128", "fd00:c1::a9fe:a9fe/128", "fd00:42::42/128", "fe80::a9fe:a9fe/128",
]
