package events

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/sandboxd/sandboxd/execd/audit"
	"github.com/sandboxd/sandboxd/policy"
)

// The reasons of our events, as `kubectl get events` shows them.
const (
	ReasonDenied   = "SandboxDenied"       // policy said no, or this place can't hold what was asked; nothing ran
	ReasonMismatch = "SandboxMismatch"     // read-back failed; nothing ran, or it was killed
	ReasonDrift    = "SandboxDrift"        // what held no longer does
	ReasonEgress   = "SandboxEgressDenied" // a program asked for a name or a connection that it may not have
	ReasonStale    = "SandboxPolicyStale"  // a changed policy couldn't be put in force
)

// mostNote is how long a note may be (events.k8s.io/v1: 1 kB).
const mostNote = 1024

// told is what an event is about.
type told struct {
	reason, action string
	// rules tell one series of a reason from another; policy's, so that their number is bounded by who writes it.
	rules string
	note  string
	at    time.Time
}

// of says whether a record is told of, and what.
func of(sequence int64, r audit.Record, now time.Time) (told, bool) {
	t := told{at: now, action: "Exec"}
	if r.Request != nil && r.Request.Action != "" {
		t.action = title(string(r.Request.Action))
	}
	if r.DryRun {
		return t, false
	}
	switch r.Type {
	case audit.TypeDecision, audit.TypeOutcome, audit.TypeSandbox, audit.TypeNetwork:
		reasons := r.Refused
		if r.Decision != nil && !r.Decision.Allow {
			reasons = r.Decision.Reasons
		}
		if r.Decision != nil && r.Decision.Allow && len(reasons) == 0 || r.Decision == nil && len(reasons) == 0 {
			return t, false
		}
		t.reason = ReasonDenied
		t.rules, t.note = summary(reasons)
	case audit.TypeMismatch:
		t.reason = ReasonMismatch
		t.rules, t.note = failed(r.Verdict, r.Message)
	case audit.TypeDrift:
		t.reason, t.action = ReasonDrift, "Verify"
		t.rules, t.note = failed(r.Verdict, r.Message)
	case audit.TypeEgress:
		if r.Egress == nil || r.Egress.Event != "denied" {
			return t, false
		}
		t.reason, t.action = ReasonEgress, "Connect"
		t.note = "denied: " + strings.TrimSpace(r.Egress.Name+" "+r.Egress.Destination) + ": " + r.Egress.Reason
	case audit.TypeReload:
		if r.Message == "" {
			return t, false
		}
		t.reason, t.action, t.note = ReasonStale, "Reload", "the last good policy stays in force: "+r.Message
	default:
		return t, false
	}
	t.note = clean(fmt.Sprintf("%s (audit record %d)", strings.TrimSpace(t.note), sequence))
	return t, true
}

func summary(reasons []policy.Reason) (rules, note string) {
	var names, notes []string
	for _, reason := range reasons {
		names, notes = append(names, reason.Rule), append(notes, reason.Message)
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ","), "denied: " + strings.Join(notes, "; ")
}

func failed(v *audit.Verdict, message string) (rules, note string) {
	if v == nil || len(v.Failed) == 0 {
		return "", message
	}
	var names, notes []string
	for _, row := range v.Failed {
		// Rows of one mechanism for many processes or mounts have the rest of their name after a space.
		control, _, _ := strings.Cut(row.Control, " ")
		names, notes = append(names, control), append(notes, row.Control+": want "+row.Want+", got "+row.Got)
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ","), strings.Join(notes, "; ")
}

func title(word string) string { return strings.ToUpper(word[:1]) + word[1:] }

// clean makes a note that the API takes and a terminal survives.
func clean(text string) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == utf8.RuneError {
			return ' '
		}
		return r
	}, text)
	if len(text) <= mostNote {
		return text
	}
	// The end has the record's number, which leads to the rest.
	const gap = " … "
	open := strings.LastIndexByte(text, '(')
	tail := text[max(open, len(text)-64):]
	head := text[:mostNote-len(gap)-len(tail)]
	for !utf8.ValidString(head) {
		head = head[:len(head)-1]
	}
	return head + gap + tail
}
