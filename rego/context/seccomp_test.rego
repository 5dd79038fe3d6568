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

test_profiles_that_relax_are_denied_unless_listed if {
	every name in ["sandboxd/jit", "sandboxd/gpu"] {
		denied := context.deny with input as localhost(name) with data.settings.context.seccomp_localhost_profiles as ["sandboxd/strict"]
		fixture.rules(denied) == {"context.seccompProfile"}
	}
}

test_runtime_default_stays_unless_data_says_otherwise if {
	context.effective == {} with input as fixture.request with data.settings.context.seccomp_runtime_default as ""
}

test_strict_in_place_of_runtime_default if {
	wanted := {"securityContext": {"seccompProfile": {"type": "Localhost", "localhostProfile": "sandboxd/strict"}}}
	context.effective == wanted with input as fixture.request with data.settings.context.seccomp_runtime_default as "sandboxd/strict"
	context.effective == {} with input as localhost("sandboxd/jit") with data.settings.context.seccomp_runtime_default as "sandboxd/strict"
}
