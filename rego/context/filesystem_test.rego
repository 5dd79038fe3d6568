package sandboxd.context_test

import data.sandboxd.context
import data.sandboxd.fixture

test_writable_root_is_denied if denied_rules({"readOnlyRootFilesystem": false}) == {"context.readOnlyRootFilesystem"}

test_unmasked_proc_is_denied if denied_rules({"procMount": "Unmasked"}) == {"context.procMount"}

test_writable_root_proves_nothing if {
	proven := context.proven with input as fixture.with_context({"readOnlyRootFilesystem": false, "procMount": "Unmasked"})
	not "context.readOnlyRootFilesystem" in proven
	not "context.procMount" in proven
}
