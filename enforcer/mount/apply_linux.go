package mount

import "errors"

// Apply makes r in the caller's mount namespace, which must be new, and makes it the root. The old root is gone on return.
func Apply(r Root) error { return errors.ErrUnsupported }
