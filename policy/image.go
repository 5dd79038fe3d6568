package policy

import "strings"

// Image is what the root of a sandbox is made from. The zero value is the host's own system directories, read-only.
type Image struct {
	// Name is as the caller has it, such as "python:3.12-slim".
	Name string `json:"name"`
	// Digest is that of what this daemon has under the name, "sha256:" and hex; it is filled in by the daemon, never from the wire. Empty: it has none.
	Digest string `json:"digest"`
}

// ImageHost is the name of the host's own system directories: the same as none.
const ImageHost = "host"

// longestImage bounds a name.
const longestImage = 255

// CheckImage says whether a text can be the name of an image: letters, digits and "._-/:@", beginning with a letter or a digit. The error is a *FieldError.
func CheckImage(name string) error { return orNil(checkImage("image", name)) }

func checkImage(field, name string) *FieldError {
	plain := func(r rune) bool { return r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' }
	switch {
	case name == "":
		return faultf(field, "empty; leave it out for the host's own system directories")
	case len(name) > longestImage:
		return faultf(field, "%d bytes, at most %d", len(name), longestImage)
	case !plain(rune(name[0])) || strings.ContainsFunc(name, func(r rune) bool { return !plain(r) && !strings.ContainsRune("._-/:@", r) }):
		return faultf(field, "%s isn't the name of an image, such as python:3.12-slim", quote(name))
	}
	return nil
}

// writtenImage is what somebody wrote: nothing, or a name.
func writtenImage(name *string) (Image, *FieldError) {
	if name == nil || *name == ImageHost {
		return Image{}, nil
	}
	return Image{Name: *name}, checkImage("image", *name)
}
