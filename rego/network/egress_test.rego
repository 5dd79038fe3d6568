package sandboxd.network_test

import data.sandboxd.fixture
import data.sandboxd.network

index_443 := [{"target": "unlisted.example.net", "ports": [443]}]

asked(ports) := fixture.with_network({"egress": [{"action": "allow", "target": "unlisted.example.net", "ports": ports}]})

test_deny_all_is_proven if {
	proven := network.proven with input as fixture.request with data.settings.network.default_actions as ["deny"]
	proven == {"network.egress"}
	denied := network.deny with input as fixture.request with data.settings.network.default_actions as ["deny"]
	denied == set()
}

test_allow_by_default_is_denied if {
	request := fixture.with_network({"defaultAction": "allow"})
	denied := network.deny with input as request with data.settings.network.default_actions as ["deny"]
	fixture.rules(denied) == {"network.egress"}
	proven := network.proven with input as request with data.settings.network.default_actions as ["deny"]
	proven == set()
}

open_settings := {"default_actions": ["allow", "deny"], "targets": []}

test_allow_by_default_is_proven_where_data_lists_it if {
	request := fixture.with_network({"defaultAction": "allow"})
	denied := network.deny with input as request with data.settings.network as open_settings
	denied == set()
	proven := network.proven with input as request with data.settings.network as open_settings
	proven == {"network.egress"}
}

test_any_public_target_is_proven_where_the_default_may_be_allow if {
	proven := network.proven with input as asked([443]) with data.settings.network as open_settings
	proven == {"network.egress"}
}

test_closed_range_is_denied_though_the_default_may_be_allow if {
	every target in ["10.1.0.0/16", "192.168.1.1", "fd00::1"] {
		request := fixture.with_network({"egress": [{"action": "allow", "target": target, "ports": []}]})
		denied := network.deny with input as request with data.settings.network as open_settings
		fixture.rules(denied) == {"network.egress"}
	}
}

test_unknown_default_action_is_denied if {
	denied := network.deny with input as fixture.with_network({"defaultAction": ""}) with data.settings.network.default_actions as ["deny"]
	fixture.rules(denied) == {"network.egress"}
}

test_unlisted_target_is_denied if {
	denied := network.deny with input as asked([443]) with data.settings.network.targets as [] with data.settings.network.default_actions as ["deny"]
	fixture.rules(denied) == {"network.egress"}
}

test_listed_target_and_port_is_proven if {
	proven := network.proven with input as asked([443]) with data.settings.network.targets as index_443 with data.settings.network.default_actions as ["deny"]
	proven == {"network.egress"}
}

test_other_port_of_a_listed_target_is_denied if {
	denied := network.deny with input as asked([22]) with data.settings.network.targets as index_443 with data.settings.network.default_actions as ["deny"]
	count(denied) == 1
}

test_all_ports_of_a_target_listed_with_one_is_denied if {
	denied := network.deny with input as asked([]) with data.settings.network.targets as index_443 with data.settings.network.default_actions as ["deny"]
	count(denied) == 1
}

test_target_listed_without_ports_has_all if {
	proven := network.proven with input as asked([22, 443]) with data.settings.network.targets as [{"target": "unlisted.example.net", "ports": []}] with data.settings.network.default_actions as ["deny"]
	proven == {"network.egress"}
}

test_more_denied_is_fine if {
	request := fixture.with_network({"egress": [{"action": "deny", "target": "example.com", "ports": []}]})
	denied := network.deny with input as request with data.settings.network.default_actions as ["deny"]
	denied == set()
}

test_change_keeps_what_is_listed if {
	listed := {"action": "allow", "target": "unlisted.example.net", "ports": [443]}
	other := {"action": "allow", "target": "example.com", "ports": [443]}
	request := fixture.with_network({"egress": [listed, other]})
	denied := network.deny with input as request with data.settings.network.targets as index_443 with data.settings.network.default_actions as ["deny"]
	some reason in denied
	reason.change.value == [listed]
}

test_change_keeps_rules_as_a_request_says_them if {
	kept := [{"action": "deny", "target": "10.0.0.0/8", "ports": []}, {"action": "deny", "target": "a.example.com", "ports": [443]}]
	asked := array.concat(kept, [{"action": "allow", "target": "example.com", "ports": []}])
	denied := network.deny with input as fixture.with_network({"egress": asked}) with data.settings.network.targets as [] with data.settings.network.default_actions as ["deny"]
	some reason in denied
	reason.change.value == [{"action": "deny", "target": "10.0.0.0/8"}, {"action": "deny", "target": "a.example.com", "ports": [443]}]
}

wanted(target) := fixture.with_network({"egress": [{"action": "allow", "target": target, "ports": [443]}]})

listed(target) := [{"target": target, "ports": [443]}]

test_more_specific_is_covered if {
	every entry, target in {
		"*.example.com": {"*.example.com", "a.example.com", "a.b.example.com", "*.a.example.com"},
		"10.0.0.0/8": {"10.0.0.0/8", "10.1.0.0/16", "10.1.2.3"},
		"8.0.0.0/7": {"9.9.9.9", "8.8.0.0/16"},
		"2600::/16": {"2600::1", "2600:1::/32"},
		"fd00:1::/32": {"fd00:1::1"},
	} {
		every one in target {
			proven := network.proven with input as wanted(one) with data.settings.network.targets as listed(entry) with data.settings.network.default_actions as ["deny"]
			proven == {"network.egress"}
		}
	}
}

test_datagrams_are_data if {
	every asked, listed_as in {false: [true, false], true: [true]} {
		every one in listed_as {
			spec := {"network": {"defaultAction": "deny", "egress": [], "datagrams": asked}}
			network.proven == {"network.egress"} with input as spec with data.settings.network.datagrams as one
		}
	}
	closed := {"network": {"defaultAction": "deny", "egress": [], "datagrams": true}}
	proven := network.proven with input as closed with data.settings.network.datagrams as false
	proven == set()
	denied := network.deny with input as closed with data.settings.network.datagrams as false
	fixture.rules(denied) == {"network.egress"}
}

test_others_are_not_covered if {
	every entry, target in {
		"*.example.com": {"example.com", "*.com", "evil-example.com", "a.example.com.evil.net", "*.org", "93.184.216.34"},
		"example.com": {"a.example.com", "*.example.com"},
		"*": {"a.example.com", "10.0.0.1"},
		"*.": {"a.example.com"},
		"*.2.3": {"10.1.2.3"},
		"*.1": {"10.0.0.1"},
		"10.0.0.0/8": {"11.0.0.1", "10.0.0.0/7", "a.example.com", "2600::1"},
		"10.0.0.1": {"10.0.0.2", "10.0.0.0/8"},
		"0.0.0.0/0": {"10.0.0.0/8", "10.0.0.1", "192.168.1.0/24", "169.254.1.1", "::/0", "2600::1"},
		"10.0.0.0/7": {"10.0.0.1"},
		"::/0": {"fd00::1", "64:ff9b::/96", "9.9.9.9"},
		"::ffff:0:0/96": {"9.9.9.9", "10.0.0.1"},
		"not/aprefix": {"10.0.0.1", "a.example.com"},
	} {
		every one in target {
			proven := network.proven with input as wanted(one) with data.settings.network.targets as listed(entry) with data.settings.network.default_actions as ["deny"]
			proven == set()
			denied := network.deny with input as wanted(one) with data.settings.network.targets as listed(entry) with data.settings.network.default_actions as ["deny"]
			fixture.rules(denied) == {"network.egress"}
		}
	}
}

test_ports_of_several_entries_add_up if {
	entries := [{"target": "*.example.com", "ports": [80]}, {"target": "a.example.com", "ports": [443]}]
	request := fixture.with_network({"egress": [{"action": "allow", "target": "a.example.com", "ports": [80, 443]}]})
	proven := network.proven with input as request with data.settings.network.targets as entries with data.settings.network.default_actions as ["deny"]
	proven == {"network.egress"}
	other := fixture.with_network({"egress": [{"action": "allow", "target": "b.example.com", "ports": [80, 443]}]})
	unproven := network.proven with input as other with data.settings.network.targets as entries with data.settings.network.default_actions as ["deny"]
	unproven == set()
}

test_message_says_what_would_pass if {
	entries := [{"target": "*.example.com", "ports": [80, 443]}, {"target": "10.0.0.0/8", "ports": []}]
	denied := network.deny with input as wanted("unlisted.example.net") with data.settings.network.targets as entries with data.settings.network.default_actions as ["deny"]
	some reason in denied
	reason.message == "Egress may only be allowed to these targets: *.example.com on 80, 443, 10.0.0.0/8."
}

test_entry_without_a_list_of_ports_proves_nothing if {
	proven := network.proven with input as wanted("unlisted.example.net") with data.settings.network.targets as [{"target": "unlisted.example.net"}] with data.settings.network.default_actions as ["deny"]
	proven == set()
}
