# METADATA
# title: How much one exec may use
# description: The maxima are in data, settings.limits.maximum. A limit above its maximum is refused, never silently lowered.
package sandboxd.limits

# METADATA
# title: No limit is above its maximum
# description: Data has a maximum for every limit, and each limit is between 0 and its maximum.
# labels:
#   rule: limits.maximum
proven contains "limits.maximum" if {
	every name, value in input.limits {
		value >= 0
		value <= data.settings.limits.maximum[name]
	}
	object.keys(input.limits) == object.keys(data.settings.limits.maximum)
}

# METADATA
# title: Limit above its maximum
# description: One reason for each limit, with the highest value that would pass.
# labels:
#   rule: limits.maximum
deny contains reason if {
	some name, value in input.limits
	maximum := data.settings.limits.maximum[name]
	value > maximum
	field := concat(".", ["limits", name])
	reason := {
		"rule": "limits.maximum",
		"message": sprintf("%s may be at most %v.", [name, maximum]),
		"field": field,
		"change": {"op": "set", "field": field, "value": maximum},
	}
}
