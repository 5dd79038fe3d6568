package sandboxd.network_test

import data.sandboxd.fixture
import data.sandboxd.network

index_443 := [{"target": "pypi.org", "ports": [443]}]

asked(ports) := fixture.with_network({"egress": [{"action": "allow", "target": "pypi.org", "ports": ports}]})

test_deny_all_is_proven if {
	proven := network.proven with input as fixture.request
	proven == {"network.egress"}
	denied := network.deny with input as fixture.request
	denied == set()
}

test_allow_by_default_is_denied if {
	request := fixture.with_network({"defaultAction": "allow"})
	denied := network.deny with input as request
	fixture.rules(denied) == {"network.egress"}
	proven := network.proven with input as request
	proven == set()
}

test_unknown_default_action_is_denied if {
	denied := network.deny with input as fixture.with_network({"defaultAction": ""})
	fixture.rules(denied) == {"network.egress"}
}

test_unlisted_target_is_denied if {
	denied := network.deny with input as asked([443])
	fixture.rules(denied) == {"network.egress"}
}

test_listed_target_and_port_is_proven if {
	proven := network.proven with input as asked([443]) with data.settings.network.targets as index_443
	proven == {"network.egress"}
}

test_other_port_of_a_listed_target_is_denied if {
	denied := network.deny with input as asked([22]) with data.settings.network.targets as index_443
	count(denied) == 1
}

test_all_ports_of_a_target_listed_with_one_is_denied if {
	denied := network.deny with input as asked([]) with data.settings.network.targets as index_443
	count(denied) == 1
}

test_target_listed_without_ports_has_all if {
	proven := network.proven with input as asked([22, 443]) with data.settings.network.targets as [{"target": "pypi.org", "ports": []}]
	proven == {"network.egress"}
}

test_more_denied_is_fine if {
	request := fixture.with_network({"egress": [{"action": "deny", "target": "example.com", "ports": []}]})
	denied := network.deny with input as request
	denied == set()
}

test_change_keeps_what_is_listed if {
	listed := {"action": "allow", "target": "pypi.org", "ports": [443]}
	other := {"action": "allow", "target": "example.com", "ports": [443]}
	request := fixture.with_network({"egress": [listed, other]})
	denied := network.deny with input as request with data.settings.network.targets as index_443
	some reason in denied
	reason.change.value == [listed]
}

test_change_keeps_rules_as_a_request_says_them if {
	kept := [{"action": "deny", "target": "10.0.0.0/8", "ports": []}, {"action": "deny", "target": "a.example.com", "ports": [443]}]
	asked := array.concat(kept, [{"action": "allow", "target": "example.com", "ports": []}])
	denied := network.deny with input as fixture.with_network({"egress": asked})
	some reason in denied
	reason.change.value == [{"action": "deny", "target": "10.0.0.0/8"}, {"action": "deny", "target": "a.example.com", "ports": [443]}]
}
