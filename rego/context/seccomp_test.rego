package sandboxd.context_test

import data.sandboxd.context
import data.sandboxd.fixture

localhost(name) := fixture.with_context({"seccompProfile": {"type": "Localhost", "localhostProfile": name}})

test_unconfined_and_unknown_kinds_are_denied if {
	every kind in ["Unconfined", "", "runtimedefault"] {
		denied_rules({"seccompProfile": {"type": kind}}) == {"context.seccompProfile"}
	}
}

test_unconfined_passes_only_when_data_lists_it if {
	request := fixture.with_context({"seccompProfile": {"type": "Unconfined"}})
	proven := context.proven with input as request with data.settings.context.seccomp_profile_types as ["Unconfined"]
	"context.seccompProfile" in proven
}

test_unlisted_profile_is_denied if {
	denied := context.deny with input as localhost("gpu.json")
	fixture.rules(denied) == {"context.seccompProfile"}
	proven := context.proven with input as localhost("gpu.json")
	not "context.seccompProfile" in proven
}

test_listed_profile_is_proven if {
	proven := context.proven with input as localhost("gpu.json") with data.settings.context.seccomp_localhost_profiles as ["gpu.json"]
	"context.seccompProfile" in proven
}

test_listed_profile_needs_its_kind if {
	proven := context.proven with input as localhost("gpu.json")
		with data.settings.context.seccomp_localhost_profiles as ["gpu.json"]
		with data.settings.context.seccomp_profile_types as ["RuntimeDefault"]
	not "context.seccompProfile" in proven
}

test_localhost_without_a_name_is_denied if {
	denied := context.deny with input as localhost(null)
	fixture.rules(denied) == {"context.seccompProfile"}
}
