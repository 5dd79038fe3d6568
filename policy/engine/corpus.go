package engine

import (
	"context"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sandboxd/sandboxd/policy"
)

// corpusFile is one file of decisions that a person can read: each has a title, a request as a caller would send it, and what is wanted.
type corpusFile struct {
	Title string       `json:"title"`
	Cases []corpusCase `json:"cases"`
	name  string
}

type corpusCase struct {
	// Title says the case as a sentence.
	Title string `json:"title"`
	// Caller is who asks; by default an ordinary user at the command line.
	Caller *policy.Caller `json:"caller,omitempty"`
	// Request is the body of POST /v1/decide.
	Request jsontext.Value `json:"request"`
	// Want is "allow" or "deny".
	Want string `json:"want"`
	// Because has the rules that speak against the request: all of them, and no others.
	Because []string `json:"because,omitempty"`
	request policy.Request
}

const (
	wantAllow = "allow"
	wantDeny  = "deny"
)

func parseCorpus(name string, content []byte) (corpusFile, error) {
	file := corpusFile{name: name}
	if err := json.Unmarshal(content, &file, json.RejectUnknownMembers(true)); err != nil {
		return corpusFile{}, fmt.Errorf("%s: %w", name, err)
	}
	for i := range file.Cases {
		if err := file.Cases[i].parse(); err != nil {
			return corpusFile{}, fmt.Errorf("%s: %w", name, &caseError{i, file.Cases[i].Title, err})
		}
	}
	return file, nil
}

// caseError is a case that can't be asked.
type caseError struct {
	index int
	title string
	err   error
}

func (e *caseError) Error() string { return fmt.Sprintf("case %d, %q: %v", e.index+1, e.title, e.err) }

func (e *caseError) Unwrap() error { return e.err }

// pointer is where the case is in its file.
func (e *caseError) pointer() jsontext.Pointer { return casePointer(e.index) }

func casePointer(index int) jsontext.Pointer {
	return jsontext.Pointer("/cases").AppendToken(strconv.Itoa(index))
}

func (c *corpusCase) parse() error {
	if c.Title == "" {
		return errors.New("no title")
	}
	if c.Want != wantAllow && c.Want != wantDeny {
		return fmt.Errorf("want is %q; it may be %q or %q", c.Want, wantAllow, wantDeny)
	}
	if (c.Want == wantDeny) != (len(c.Because) > 0) {
		return errors.New("a denied case says because of which rules, an allowed one doesn't")
	}
	var err error
	if c.request, err = policy.ParseDecide(c.Request); err != nil {
		return err
	}
	c.request.Caller = policy.Caller{UID: 1000, GID: 1000, Via: "cli"}
	if c.Caller != nil {
		c.request.Caller = *c.Caller
	}
	return nil
}

// proveCorpus wants every case decided as it says, and at least one case of either kind: a bundle that can't say no, or can't say yes, is a mistake.
func (g *generation) proveCorpus(ctx context.Context, files []corpusFile) error {
	seen := map[string]int{}
	for _, file := range files {
		for _, want := range file.Cases {
			seen[want.Want]++
			decision, err := g.decide(ctx, want.request)
			if err != nil {
				return fmt.Errorf("%s: %q: %w", file.name, want.Title, err)
			}
			if got := wrong(want, decision); got != "" {
				return fmt.Errorf("%s: %q: want %s, got %s", file.name, want.Title, describe(want.Want, want.Because), got)
			}
		}
	}
	return enoughDecisions(seen)
}

func enoughDecisions(wants map[string]int) error {
	if wants[wantAllow] == 0 || wants[wantDeny] == 0 {
		return fmt.Errorf("corpus: %d cases to allow and %d to deny; a bundle needs at least one of each", wants[wantAllow], wants[wantDeny])
	}
	return nil
}

// wrong describes a decision that isn't as wanted.
func wrong(want corpusCase, decision policy.Decision) string {
	var rules []string
	for _, reason := range decision.Reasons {
		rules = append(rules, reason.Rule)
	}
	slices.Sort(rules)
	rules = slices.Compact(rules)
	wanted := slices.Clone(want.Because)
	slices.Sort(wanted)
	if decision.Allow == (want.Want == wantAllow) && slices.Equal(rules, wanted) {
		return ""
	}
	if decision.Allow {
		return describe(wantAllow, nil)
	}
	return describe(wantDeny, rules)
}

func describe(what string, rules []string) string {
	if len(rules) == 0 {
		return what
	}
	return what + " because of " + strings.Join(rules, ", ")
}
