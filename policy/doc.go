// Package policy holds the words that every part of sandboxd uses, as plain values: a [Request] comes in, a [Decision] says what is in force
// instead, and a [Verdict] says what the kernel was found to enforce. It parses them strictly, compares them and gives them digests. It judges
// nothing (package engine does), acts on nothing, and imports the standard library only.
//
//	bytes ──Parse──▶ Request ──engine──▶ Decision ──enforcer──▶ Plan … State ──Check──▶ Verdict
package policy
