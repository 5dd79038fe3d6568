package sandboxd.file_test

import data.sandboxd
import data.sandboxd.fixture

test_a_file_of_the_work_directory_passes if {
	every path in ["/work/a", "/work", "a", "a/b.txt", "..a", "a/...", "/tmp/a b"] {
		sandboxd.decision.allow with input as fixture.with_file({"path": path})
	}
}

test_a_path_that_leads_elsewhere_is_denied if {
	every path in [
		"", "/", "/etc/passwd", "/workshop/a", "/proc/self/root/etc/passwd", "a/../../etc/x", "/work/../etc/x", "/work/./a", "a//b", "a/", "/work/",
		"..", ".", "/dev/shm/a", "a\u0000b",
	] {
		decision := sandboxd.decision with input as fixture.with_file({"path": path})
		not decision.allow
		fixture.rules(decision.reasons) == {"file.path"}
		{reason.field | some reason in decision.reasons} == {"file.path"}
	}
}

test_one_that_follows_links_begins_beneath_its_own_roots if {
	every file in [{"path": "/"}, {"path": "/etc/passwd"}, {"path": "/tmp/a", "operation": "move", "to": "/opt/b"}] {
		sandboxd.decision.allow with input as fixture.with_file(object.union(file, {"follow": true})) with data.settings.file.followed_roots as ["/"]
	}
	every file in [{"path": "/a/../b"}, {"path": "//"}, {"path": "/tmp/a", "operation": "move", "to": "/opt/./b"}, {"path": "relative/../a"}] {
		decision := sandboxd.decision with input as fixture.with_file(object.union(file, {"follow": true}))
		not decision.allow
		fixture.rules(decision.reasons) == {"file.path"}
	}
	every file in [{"path": "/etc/passwd"}, {"path": "/work/a", "operation": "move", "to": "/etc/b"}] {
		decision := sandboxd.decision with input as fixture.with_file(object.union(file, {"follow": true}))
			with data.settings.file.followed_roots as ["/work"]
		not decision.allow
		fixture.rules(decision.reasons) == {"file.path"}
	}
}

test_one_that_follows_no_link_has_no_second_path if {
	decision := sandboxd.decision with input as fixture.with_file({"path": "/work/a", "to": "/work/b"})
	not decision.allow
}

test_an_operation_that_is_not_listed_is_denied if {
	decision := sandboxd.decision with input as fixture.reading with data.settings.file.operations as ["list"]
	not decision.allow
	fixture.rules(decision.reasons) == {"file.operation"}
	{reason.field | some reason in decision.reasons} == {"file.operation"}
}

test_no_roots_in_data_denies if {
	decision := sandboxd.decision with input as fixture.reading with data.settings.file.roots as []
	not decision.allow
}

test_a_file_beside_a_command_is_denied if {
	asked := object.union(fixture.request, {"file": {"operation": "read", "path": "/work/a"}})
	decision := sandboxd.decision with input as asked
	not decision.allow
	"file.path" in fixture.rules(decision.reasons)
}

test_a_command_beside_a_file_is_denied if {
	asked := object.union(fixture.reading, {"command": {"argv": ["ls"]}})
	decision := sandboxd.decision with input as asked
	not decision.allow
	"exec.shape" in fixture.rules(decision.reasons)
}
