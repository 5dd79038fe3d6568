package policy

import (
	"crypto/sha256"
	"encoding/hex"
)

// Bulk is what is known of a text that is too long to be here: judgement and record go by it, whoever needs the text has it elsewhere.
type Bulk struct {
	Bytes int64
	Sum   [sha256.Size]byte
}

// BulkOf is the Bulk of a text.
func BulkOf(text []byte) Bulk { return Bulk{int64(len(text)), sha256.Sum256(text)} }

// Digest is "sha256:" and the hex of the text's hash.
func (b Bulk) Digest() string { return "sha256:" + hex.EncodeToString(b.Sum[:]) }

// InputsBulk is the Bulk of a program's inputs, wherever they are.
func (p Program) InputsBulk() Bulk {
	if p.Bulk != nil {
		return *p.Bulk
	}
	return BulkOf(p.Inputs)
}
