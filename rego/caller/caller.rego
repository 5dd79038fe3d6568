# METADATA
# title: Who asks
# description: The caller is who the kernel says is at the other end of the socket, the owner of a token, or whoever runs the command line.
package sandboxd.caller

# METADATA
# title: The caller's user id may ask
# description: The ranges are in data, settings.caller.uids.
# labels:
#   rule: caller.uid
proven contains "caller.uid" if uid_allowed(input.caller.uid)

# METADATA
# title: The caller came by a known way
# description: The ways are in data, settings.caller.via.
# labels:
#   rule: caller.via
proven contains "caller.via" if input.caller.via in data.settings.caller.via

# METADATA
# title: User id not allowed
# description: A caller whose user id is in no range of data, settings.caller.uids, is refused.
# labels:
#   rule: caller.uid
deny contains reason if {
	not uid_allowed(input.caller.uid)
	reason := {
		"rule": "caller.uid",
		"message": "This caller's user id is in none of the ranges that may ask (settings.caller.uids).",
		"field": "caller.uid",
	}
}

# METADATA
# title: Way of asking not allowed
# description: A caller who came by a way that isn't in data, settings.caller.via, is refused.
# labels:
#   rule: caller.via
deny contains reason if {
	not input.caller.via in data.settings.caller.via
	reason := {
		"rule": "caller.via",
		"message": sprintf("Requests may only come by: %s.", [concat(", ", data.settings.caller.via)]),
		"field": "caller.via",
	}
}

# METADATA
# title: A user id in one of the ranges
# description: Both ends of a range belong to it.
# labels:
#   rule: caller.uid
uid_allowed(uid) if {
	some range in data.settings.caller.uids
	uid >= range.from
	uid <= range.to
}
