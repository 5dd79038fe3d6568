package sandboxd.limits_test

import data.sandboxd.fixture
import data.sandboxd.limits

test_defaults_are_proven if {
	proven := limits.proven with input as fixture.request
	proven == {"limits.maximum"}
}

test_the_maximum_itself_passes if {
	request := fixture.with_limits({"timeoutSeconds": 3600})
	proven := limits.proven with input as request
	proven == {"limits.maximum"}
	denied := limits.deny with input as request
	denied == set()
}

test_each_limit_above_its_maximum_is_denied if {
	every name, maximum in data.settings.limits.maximum {
		request := fixture.with_limits({name: maximum + 1})
		denied := limits.deny with input as request
		some reason in denied
		reason.field == concat(".", ["limits", name])
		reason.change.value == maximum
		proven := limits.proven with input as request
		proven == set()
	}
}

test_two_limits_have_two_reasons if {
	denied := limits.deny with input as fixture.with_limits({"pids": 1000000, "cpu": 1000})
	count(denied) == 2
}

test_a_limit_without_a_maximum_proves_nothing if {
	proven := limits.proven with input as fixture.request with data.settings.limits.maximum as {"pids": 10000}
	proven == set()
}

test_a_negative_limit_proves_nothing if {
	proven := limits.proven with input as fixture.with_limits({"pids": -1})
	proven == set()
}
