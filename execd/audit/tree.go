package audit

import (
	"crypto/sha256"
	"math/bits"

	"golang.org/x/mod/sumdb/tlog"
)

// tree is the Merkle tree over the lines of a log (RFC 6962), as much of it as adding a line and saying the root takes: it is a binary counter, whose digit i,
// where it is set in size, stands for the last full subtree of 2^i lines. A value: a copy goes its own way.
type tree struct {
	size  int64
	nodes [48]tlog.Hash
}

// add takes a line in, without its newline.
func (t *tree) add(line []byte) { t.addLeaf(tlog.RecordHash(line)) }

func (t *tree) addLeaf(node tlog.Hash) {
	i := 0
	for ; t.size>>i&1 == 1; i++ {
		node, t.nodes[i] = tlog.NodeHash(t.nodes[i], node), tlog.Hash{}
	}
	t.nodes[i] = node
	t.size++
}

// root is the digest of all lines.
func (t *tree) root() tlog.Hash {
	if t.size == 0 {
		return sha256.Sum256(nil)
	}
	i := bits.TrailingZeros64(uint64(t.size))
	root := t.nodes[i]
	for i++; t.size>>i > 0; i++ {
		if t.size>>i&1 == 1 {
			root = tlog.NodeHash(t.nodes[i], root)
		}
	}
	return root
}

// subtrees are the digits that are set, from the smallest; [treeOf] takes them back.
func (t *tree) subtrees() []tlog.Hash {
	var list []tlog.Hash
	for i := range t.nodes {
		if t.size>>i&1 == 1 {
			list = append(list, t.nodes[i])
		}
	}
	return list
}

// treeOf is the tree of so many lines with these subtrees; false: so many lines have another number of subtrees.
func treeOf(size int64, subtrees []tlog.Hash) (t tree, ok bool) {
	if size < 0 || size>>len(t.nodes) > 0 || bits.OnesCount64(uint64(size)) != len(subtrees) {
		return t, false
	}
	t.size = size
	for i := range t.nodes {
		if size>>i&1 == 1 {
			t.nodes[i], subtrees = subtrees[0], subtrees[1:]
		}
	}
	return t, true
}
