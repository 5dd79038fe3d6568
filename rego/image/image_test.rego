package sandboxd.image_test

import data.sandboxd
import data.sandboxd.fixture
import data.sandboxd.image

digest := "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

python := fixture.with_image({"name": "python:3.12-slim", "digest": digest})

test_no_image_is_allowed if sandboxd.decision.allow with input as fixture.request

test_an_image_that_is_here_is_allowed if sandboxd.decision.allow with input as python

test_an_image_that_is_not_here_is_denied if {
	decision := sandboxd.decision with input as fixture.with_image({"name": "python:3.12-slim", "digest": ""})
	not decision.allow
	fixture.rules(decision.reasons) == {"image.known"}
	some reason in decision.reasons
	contains(reason.message, "sandboxd image import --name python:3.12-slim PATH")
}

test_a_digest_without_a_name_is_denied if {
	not sandboxd.decision.allow with input as fixture.with_image({"name": "", "digest": digest})
}

test_something_else_than_a_digest_is_denied if {
	every text in ["latest", "sha256:", concat("", [digest, "0"]), upper(digest)] {
		reasons := image.deny with input as fixture.with_image({"name": "python:3.12-slim", "digest": text})
		fixture.rules(reasons) == {"image.known"}
	}
}

test_only_listed_images if {
	settings := object.union(data.settings, {"image": {"names": ["python:3.12-slim"]}})
	sandboxd.decision.allow with input as python with data.settings as settings
	reasons := image.deny with input as fixture.with_image({"name": "python:3.12", "digest": digest}) with data.settings as settings
	fixture.rules(reasons) == {"image.listed"}
}

test_the_root_of_an_image_may_be_written if {
	writable := {"securityContext": {"readOnlyRootFilesystem": false}}
	sandboxd.decision.allow with input as object.union(python, writable)
	not sandboxd.decision.allow with input as object.union(fixture.request, writable)
	settings := object.union(data.settings, {"image": {"writable_root": false}})
	not sandboxd.decision.allow with input as object.union(python, writable) with data.settings as settings
}
