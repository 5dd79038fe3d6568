package spool

import (
	"bytes"
	"crypto/sha256"
	"hash"
	"io"
	"os"

	"github.com/sandboxd/sandboxd/policy"
)

// InMemory is up to how many bytes a text stays in memory: less than a request takes in any case.
const InMemory = 256 << 10

// Text is one text: in memory while it is short, in a file from then on. It is written once, by one goroutine, then read; [Text.Close] gives its file and
// its share of the budget back.
type Text struct {
	store  *Store
	memory []byte
	file   *os.File
	size   int64
	sum    hash.Hash
}

// Text is a new, empty one.
func (s *Store) Text() *Text { return &Text{store: s, sum: sha256.New()} }

// Write appends. The error is [ErrFull], [ErrNoSpace], or another of the disk's; nothing may be written after one.
func (t *Text) Write(piece []byte) (int, error) {
	t.sum.Write(piece)
	if t.file == nil {
		if t.size+int64(len(piece)) <= InMemory {
			t.memory = append(t.memory, piece...)
			t.size += int64(len(piece))
			return len(piece), nil
		}
		if err := t.spill(); err != nil {
			return 0, err
		}
	}
	return t.append(piece)
}

// spill moves what is in memory to a file.
func (t *Text) spill() error {
	file, err := t.store.file()
	if err != nil {
		return err
	}
	moved := t.memory
	t.file, t.memory, t.size = file, nil, 0
	_, err = t.append(moved)
	return err
}

func (t *Text) append(piece []byte) (int, error) {
	if err := t.store.take(t.file, int64(len(piece))); err != nil {
		return 0, err
	}
	t.size += int64(len(piece)) // also when it fails: Close gives back what was taken
	n, err := t.file.Write(piece)
	if err != nil {
		return n, fault(err)
	}
	return n, nil
}

// Len is its length in bytes.
func (t *Text) Len() int64 { return t.size }

// Memory is how much of it is in memory.
func (t *Text) Memory() int { return len(t.memory) }

// Short gives the text when it is in memory, and says whether it is.
func (t *Text) Short() ([]byte, bool) { return t.memory, t.file == nil }

// Bulk is its length and hash.
func (t *Text) Bulk() policy.Bulk {
	b := policy.Bulk{Bytes: t.size}
	t.sum.Sum(b.Sum[:0])
	return b
}

// Reader reads bytes from begin to end, each reader by itself.
func (t *Text) Reader(begin, end int64) io.Reader {
	if t.file == nil {
		return bytes.NewReader(t.memory[begin:end])
	}
	return io.NewSectionReader(t.file, begin, end-begin)
}

// Close is for the end of its use. It may be called more than once.
func (t *Text) Close() {
	if t.file != nil {
		t.file.Close()
		t.store.give(t.size)
	}
	t.file, t.memory, t.size = nil, nil, 0
}
