package policy

import "strings"

// Nearest is the word of words nearest to what somebody wrote, by edit distance without regard to case, or "" when none is near: more than
// half of the letters would have to change. Of two that are equally near the first wins.
func Nearest(written string, words []string) string {
	if len(written) > longestQuote {
		return "" // No word of ours is that long, and the distance takes time in proportion.
	}
	lower := strings.ToLower(written)
	best, bestDistance := "", 0
	for _, word := range words {
		distance := editDistance(lower, strings.ToLower(word))
		if distance > max(len(word)/2, 1) {
			continue
		}
		if best == "" || distance < bestDistance {
			best, bestDistance = word, distance
		}
	}
	return best
}

// editDistance counts the insertions, deletions, replacements and swaps of neighbours between two words (optimal string alignment).
func editDistance(a, b string) int {
	before := make([]int, len(b)+1)
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	next := make([]int, len(b)+1)
	for i := 1; i <= len(a); i++ {
		next[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			next[j] = min(row[j]+1, next[j-1]+1, row[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				next[j] = min(next[j], before[j-2]+1)
			}
		}
		before, row, next = row, next, before
	}
	return row[len(b)]
}

// checkEnum says whether word is one of words, and else names them all and the nearest.
func checkEnum(field, word string, words []string) *FieldError {
	for _, right := range words {
		if word == right {
			return nil
		}
	}
	fault := faultf(field, "unknown value %s, want one of %s", quote(word), strings.Join(words, ", "))
	fault.Nearest = Nearest(word, words)
	return fault
}
