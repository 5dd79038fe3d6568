package sandboxd_test

import data.sandboxd
import data.sandboxd.fixture

test_every_field_is_needed if {
	every path in [
		"/action", "/sandbox", "/image", "/image/name", "/image/digest", "/caller", "/caller/uid", "/caller/gid", "/caller/via", "/securityContext", "/securityContext/privileged",
		"/securityContext/runAsUser", "/securityContext/capabilities/add", "/securityContext/seccompProfile/localhostProfile", "/network",
		"/network/defaultAction", "/network/egress", "/command", "/command/argv", "/command/envNames", "/command/cwd", "/command/stdinBytes",
		"/program", "/file", "/file/path", "/file/mode", "/program/language", "/program/codeBytes", "/limits", "/limits/pids", "/limits/memoryBytes",
	] {
		complete := sandboxd.complete with input as json.patch(fixture.request, [{"op": "remove", "path": path}])
		complete == set()
	}
}

test_a_field_too_many_is_denied if {
	not sandboxd.decision.allow with input as object.union(fixture.request, {"privileged": false})
}

test_text_in_place_of_a_truth_value_is_denied if {
	not sandboxd.decision.allow with input as fixture.with_context({"privileged": "false"})
}

test_text_in_place_of_a_number_is_denied if {
	not sandboxd.decision.allow with input as fixture.with_limits({"pids": "12"})
}
