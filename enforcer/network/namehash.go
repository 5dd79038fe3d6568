package network

import (
	"hash/maphash"
	"math/bits"
)

// nameSeed makes hashes of names that nobody can foresee, so that nobody can write rules whose names all fall into one place.
//
// A name is hashed from its end, a word of eight bytes at a time, so that the hashes of all that it is beneath come up on the way: the hash of what
// begins in the middle of a word is that of the words behind it, closed with the part of the word.
type nameSeed struct{ begin, word, last uint64 }

func newNameSeed() nameSeed {
	seed := maphash.MakeSeed()
	return nameSeed{maphash.String(seed, "begin"), maphash.String(seed, "word") | 1, maphash.String(seed, "last") | 1}
}

// more is the hash with one more word before those that it has.
func (s *nameSeed) more(hash, word uint64) uint64 { return fold(hash^word, s.word) }

// close is the hash of a name whose first bytes, fewer than eight, are at the upper end of a word that is zero beneath.
func (s *nameSeed) close(hash, word uint64) uint64 { return fold(hash^word, s.last) }

func fold(a, b uint64) uint64 {
	high, low := bits.Mul64(a, b)
	return high ^ low
}

func (s *nameSeed) hash(name string) uint64 {
	hash, end := s.begin, len(name)
	for ; end >= wordSize; end -= wordSize {
		hash = s.more(hash, wordAt(name, end-wordSize))
	}
	return s.close(hash, headWord(name, end))
}

// wordSize is how many bytes a word has.
const wordSize = 8

// wordAt is the eight bytes of name from a place on, the last one uppermost.
func wordAt(name string, from int) uint64 {
	b := name[from : from+wordSize]
	return uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
		uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
}

// headWord is the first n bytes of name, fewer than eight, at the upper end of a word.
func headWord(name string, n int) uint64 {
	if len(name) >= wordSize {
		return wordAt(name, 0) << (8 * (wordSize - n))
	}
	return shortWord(name[:n])
}

func shortWord(name string) (word uint64) {
	for i := range len(name) {
		word = word>>8 | uint64(name[i])<<56
	}
	return word
}
