package sandboxd.context_test

import data.sandboxd.context
import data.sandboxd.fixture

denied_rules(asked) := fixture.rules(denied) if {
	denied := context.deny with input as fixture.with_context(asked)
}

test_root_is_denied_under_each_name if {
	denied_rules({"runAsUser": 0}) == {"context.runAsUser"}
	denied_rules({"runAsGroup": 0}) == {"context.runAsGroup"}
	denied_rules({"supplementalGroups": [4, 0]}) == {"context.supplementalGroups"}
	denied_rules({"runAsNonRoot": false}) == {"context.runAsNonRoot"}
}

test_root_is_denied_even_when_data_lists_it if {
	ranges := [{"from": 0, "to": 10}]
	denied := context.deny with input as fixture.with_context({"runAsUser": 0}) with data.settings.context.users as ranges
	fixture.rules(denied) == {"context.runAsUser"}
}

test_other_ids_pass if {
	denied_rules({"runAsUser": 1000, "runAsGroup": 1000, "supplementalGroups": [44, 2147483647]}) == set()
	proven := context.proven with input as fixture.with_context({"runAsUser": 1000, "runAsGroup": 1000, "supplementalGroups": [44]})
	count(proven) == 11
}

test_unlisted_user_is_denied if {
	denied := context.deny with input as fixture.with_context({"runAsUser": 1000}) with data.settings.context.users as []
	fixture.rules(denied) == {"context.runAsUser"}
}

test_change_keeps_the_allowed_groups if {
	denied := context.deny with input as fixture.with_context({"supplementalGroups": [4, 0, 5]})
	some reason in denied
	reason.change.value == [4, 5]
}
