package sandboxd.context_test

import data.sandboxd.context
import data.sandboxd.fixture

test_each_added_capability_is_denied if {
	every name in ["SYS_ADMIN", "NET_ADMIN", "NET_RAW", "SYS_PTRACE", "CHOWN", "NET_BIND_SERVICE", "ALL", ""] {
		denied_rules({"capabilities": {"add": [name]}}) == {"context.capabilities.add"}
	}
}

test_listed_capability_is_proven if {
	request := fixture.with_context({"capabilities": {"add": ["CHOWN"]}})
	proven := context.proven with input as request with data.settings.context.capabilities_add as ["CHOWN"]
	"context.capabilities.add" in proven
	denied := context.deny with input as request with data.settings.context.capabilities_add as ["CHOWN"]
	denied == set()
}

test_change_takes_out_what_is_not_allowed if {
	request := fixture.with_context({"capabilities": {"add": ["CHOWN", "SYS_ADMIN"]}})
	denied := context.deny with input as request with data.settings.context.capabilities_add as ["CHOWN"]
	some reason in denied
	reason.change == {"op": "set", "field": "securityContext.capabilities.add", "value": ["CHOWN"]}
}

test_dropping_less_than_all_is_denied if {
	every _, drop in {"nothing": [], "one": ["NET_RAW"], "lower case": ["all"]} {
		denied_rules({"capabilities": {"drop": drop}}) == {"context.capabilities.drop"}
	}
}

test_dropping_all_and_more_is_fine if denied_rules({"capabilities": {"drop": ["ALL", "NET_RAW"]}}) == set()
