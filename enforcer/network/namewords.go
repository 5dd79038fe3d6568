package network

// nameWords is a name, from its end, a word of eight bytes at a time, with the hash of what is behind each. So the hash of whatever the name lies beneath
// is that of the words behind, closed with a part of one word.
type nameWords struct {
	words, hashes [shortName/wordSize + 1]uint64
	last          uint // of them, which has fewer bytes than a word, perhaps none
}

// A name of so many bytes is read by words. Others are few.
const (
	shortestShort = wordSize
	shortName     = 64 // so that a bit for each byte fits into a word
)

// read reads a name of shortestShort to shortName bytes.
func (w *nameWords) read(name string, seed *nameSeed) {
	hash, n, end := seed.begin, uint(0), len(name)
	for ; end >= wordSize; end -= wordSize {
		word := wordAt(name, end-wordSize)
		w.words[n&7], w.hashes[n&7] = word, hash
		hash = seed.more(hash, word)
		n++
	}
	w.last = min(n, shortName/wordSize)
	w.words[w.last], w.hashes[w.last] = wordAt(name, 0)<<(8*uint(wordSize-end)), hash
}

// hash is that of the last so many bytes.
func (w *nameWords) hash(length uint, seed *nameSeed) uint64 {
	i, cut := length/wordSize&15, 64-length%wordSize*8
	if i > w.last {
		return 0
	}
	return seed.close(w.hashes[i], w.words[i]>>cut<<cut)
}

// dots has a bit for each byte of a name of so many bytes that is a dot, the last one uppermost. Plain is a name that is in canonical form unless its last
// label is a number; what isn't plain may be as well.
func (w *nameWords) dots(length uint) (dots uint64, plain bool) {
	strange := uint64(0)
	for i := range w.last {
		word := w.words[i&7]
		strange |= notPlain(word)
		dots |= gather(dotsOf(word)) >> (wordSize * i & 63)
	}
	word := w.words[w.last] | 'a'*eachByte>>(8*(length%wordSize))
	strange |= notPlain(word)
	dots |= gather(dotsOf(word)) >> (wordSize * w.last)
	// A dot at the end, one at the beginning, and two in a row are an empty label.
	strange = strange&highBits | dots>>63 | dots<<((length-1)&63)&(1<<63) | dots&(dots<<1)
	return dots, strange == 0
}

const (
	eachByte = 0x0101010101010101
	highBits = 0x80 * eachByte
)

// notPlain has the upper bit of each byte that isn't one of a-z, 0-9, hyphen and dot. An underscore may be in a name as well, but is rare. Sums of two
// numbers of at most 127 and 128 don't carry into the next byte, so all eight are judged at once: a byte and 128-c are 128 and more from c on.
func notPlain(word uint64) uint64 {
	low := word &^ highBits
	letters := (low + (128-'a')*eachByte) &^ (low + (127-'z')*eachByte)
	others := (low + (128-'-')*eachByte) &^ (low + (127-'9')*eachByte)
	slash := (low + (128-'/')*eachByte) &^ (low + (127-'/')*eachByte)
	return word | ^(letters | others&^slash)
}

// dotsOf has the upper bit of each byte that is a dot, and one of each that is a dot with its upper bit.
func dotsOf(word uint64) uint64 { return ^((word&^highBits ^ '.'*eachByte) + 127*eachByte) & highBits }

// gather moves the upper bits of the bytes of a word into its uppermost byte, in order: of the eight products of a bit, one comes to lie there.
func gather(high uint64) uint64 { return high >> 7 * 0x0102040810204080 &^ (1<<56 - 1) }
