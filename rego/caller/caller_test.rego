package sandboxd.caller_test

import data.sandboxd.caller
import data.sandboxd.fixture

test_listed_uid_is_proven if {
	proven := caller.proven with input as fixture.request
	proven == {"caller.uid", "caller.via"}
	denied := caller.deny with input as fixture.request
	denied == set()
}

test_uid_outside_the_ranges_is_denied if {
	denied := caller.deny with input as fixture.request with data.settings.caller.uids as [{"from": 0, "to": 999}]
	fixture.rules(denied) == {"caller.uid"}
}

test_no_ranges_means_nobody if {
	denied := caller.deny with input as fixture.request with data.settings.caller.uids as []
	fixture.rules(denied) == {"caller.uid"}
}

test_ends_of_a_range_belong_to_it if {
	proven := caller.proven with input as fixture.request with data.settings.caller.uids as [{"from": 1000, "to": 1000}]
	"caller.uid" in proven
}

test_unknown_way_is_denied if {
	denied := caller.deny with input as object.union(fixture.request, {"caller": {"via": "tcp"}})
	fixture.rules(denied) == {"caller.via"}
}
