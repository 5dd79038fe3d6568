package image

import "fmt"

// Limits bound what one image may be.
type Limits struct {
	// Bytes is how much its files may have together, layer by layer, whether a later one takes them away or not; > 0.
	Bytes int64
	// Entries is how many files, directories and links its layers may have together; > 0.
	Entries int
}

// DefaultLimits are those of a daemon that says nothing else.
func DefaultLimits() Limits { return Limits{Bytes: 16 << 30, Entries: 2_000_000} }

// The bounds that no configuration moves.
const (
	mostDocument = 4 << 20 // bytes of a manifest, an index or a configuration
	mostLayers   = 512
	mostTop      = 512 // directories right below the root
	mostAccounts = 256 << 10
	longestName  = 4095 // PATH_MAX without its end
	deepest      = 256  // directories of a name
	deepestIndex = 4    // an index of indexes of …
	mostFiles    = 1_000_000
)

// spent is what has been used of the limits.
type spent struct {
	limits  Limits
	bytes   int64
	entries int
}

func (s *spent) entry() error {
	if s.entries++; s.entries > s.limits.Entries {
		return fmt.Errorf("more than %d files, directories and links", s.limits.Entries)
	}
	return nil
}

func (s *spent) content(n int64) error {
	if n < 0 || n > s.limits.Bytes-s.bytes {
		return fmt.Errorf("more than %d bytes", s.limits.Bytes)
	}
	s.bytes += n
	return nil
}
