# METADATA
# title: What the root is made from
# description: >-
#   A request names an image, or none: then the sandbox shows the host's system directories, read-only. The digest is the daemon's, of what it has under
#   that name; it is empty where it has nothing, and then nobody knows what would run.
package sandboxd.image

# METADATA
# title: No image
# description: The host's own system directories, read-only.
# labels:
#   rule: image.known
proven contains label if {
	input.image == {"name": "", "digest": ""}
	some label in {"image.known", "image.listed"}
}

# METADATA
# title: An image that is here
# description: The daemon has one under this name, and says which by its digest.
# labels:
#   rule: image.known
proven contains "image.known" if {
	input.image.name != ""
	regex.match(`^sha256:[0-9a-f]{64}$`, input.image.digest)
}

# METADATA
# title: An image that is listed
# description: Its name is in data, settings.image.names, or "*" is.
# labels:
#   rule: image.listed
proven contains "image.listed" if {
	input.image.name != ""
	listed
}

# METADATA
# title: Image not here
# description: What isn't here can't be judged by what it is.
# labels:
#   rule: image.known
deny contains reason if {
	input.image.name != ""
	not regex.match(`^sha256:[0-9a-f]{64}$`, input.image.digest)
	reason := {
		"rule": "image.known",
		"message": sprintf("There is no image %q here; import it (sandboxd image import --name %s PATH), or configure it (sandboxd serve --image %s=PATH).", [
			input.image.name, input.image.name, input.image.name,
		]),
		"field": "image",
		"change": {"op": "remove", "field": "image"},
	}
}

# METADATA
# title: Image not listed
# description: Only images that are listed in data, settings.image.names, may be used.
# labels:
#   rule: image.listed
deny contains reason if {
	input.image.name != ""
	not listed
	reason := {
		"rule": "image.listed",
		"message": sprintf("This image is not allowed; allowed are: %s.", [concat(", ", data.settings.image.names)]),
		"field": "image",
		"change": {"op": "remove", "field": "image"},
	}
}

# METADATA
# title: A listed name
# description: Exactly as it is written, or any where "*" is listed.
# labels:
#   rule: image.listed
listed if "*" in data.settings.image.names

# METADATA
# title: This very name
# description: A tag or a digest belongs to it.
# labels:
#   rule: image.listed
listed if input.image.name in data.settings.image.names
