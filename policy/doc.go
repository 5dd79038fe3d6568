// Package policy holds the words that every part of sandboxd uses, as plain values: a [Request] comes in, a [Decision] says what is in force
// instead, and a [Verdict] says what the kernel was found to enforce. It parses them strictly, compares them and gives them digests. It judges
// nothing (package engine does), acts on nothing, and imports the standard library only.
//
// Parsing is strict (decode.go): an unknown or duplicate key, the wrong case, a null, an unknown word or a number out of range is a [FieldError]
// that names the path and the nearest right word. [SecurityContext.Defaulted] and its like say what was not asked for; [Within] and its like
// compare two such forms; [Canonical] and [Digest] are of them.
//
//	bytes ──Parse──▶ Request ──engine──▶ Decision ──enforcer──▶ Plan … State ──Check──▶ Verdict
package policy
