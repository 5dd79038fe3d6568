package events

import (
	"cmp"
	"slices"
	"time"
)

// seriesKey tells series apart.
type seriesKey struct{ reason, action, rules string }

// series is one event and how often it was told.
type series struct {
	key   seriesKey
	note  string
	first time.Time
	last  time.Time
	count int
	// name is the object's in the API, empty until it is made; sent is the count that the API has, sentAt since when.
	name   string
	sent   int
	sentAt time.Time
	// again is when a request that failed may be tried again, tries how often it was.
	again time.Time
	tries int
}

// mostSeries bounds the series that are kept; what is beyond goes to one more of its reason, without a rule's name.
const mostSeries = 64

// book is the series that are going on, and how many requests may be made. It knows no clock and no network.
type book struct {
	// every is how often one series is sent at most, quiet after how long without a new one it is over.
	every, quiet time.Duration
	// burst requests may be made at once, and one more each refill.
	burst  int
	refill time.Duration

	open     map[seriesKey]*series
	tokens   int
	refilled time.Time
}

func newBook(o Options, now time.Time) *book {
	return &book{every: o.SeriesEvery, quiet: o.Quiet, burst: o.Burst, refill: o.Refill, open: map[seriesKey]*series{}, tokens: o.Burst, refilled: now}
}

// note takes what was told into its series.
func (b *book) note(t told) {
	key := seriesKey{t.reason, t.action, t.rules}
	s := b.open[key]
	if s == nil && len(b.open) >= mostSeries {
		key = seriesKey{reason: t.reason}
		s = b.open[key]
		t.note = clean("more than can be told one by one: " + t.note)
	}
	if s == nil {
		s = &series{key: key, note: t.note, first: t.at}
		b.open[key] = s
	}
	s.count++
	s.last = t.at
}

// next is a series that should be sent now, nil: none, or the bucket is empty. It is asked again after done or failed.
func (b *book) next(now time.Time) *series {
	for ; b.tokens < b.burst && now.Sub(b.refilled) >= b.refill; b.refilled = b.refilled.Add(b.refill) {
		b.tokens++
	}
	if b.tokens == b.burst {
		b.refilled = now
	}
	var due []*series
	for key, s := range b.open {
		switch {
		case s.count == s.sent && now.Sub(s.last) > b.quiet:
			delete(b.open, key)
		case s.count > s.sent && !now.Before(s.again) && (s.sent == 0 || now.Sub(s.sentAt) >= b.every):
			due = append(due, s)
		}
	}
	if len(due) == 0 || b.tokens == 0 {
		return nil
	}
	// What was never told comes first, then what waits longest.
	slices.SortFunc(due, func(a, b *series) int {
		return cmp.Or(cmp.Compare(min(a.sent, 1), min(b.sent, 1)), a.last.Compare(b.last), cmp.Compare(a.key.rules, b.key.rules))
	})
	b.tokens--
	return due[0]
}

// done says that the API has the first count of a series.
func (b *book) done(s *series, name string, count int, now time.Time) {
	s.name, s.sent, s.sentAt, s.tries, s.again = name, count, now, 0, time.Time{}
}

// failed puts a series off, for longer each time; after mostTries it is given up, and what comes begins a new one.
func (b *book) failed(s *series, after time.Duration, now time.Time) (givenUp bool) {
	s.tries++
	if s.tries >= mostTries {
		delete(b.open, s.key)
		return true
	}
	s.again = now.Add(max(after, time.Second<<s.tries))
	return false
}

const mostTries = 6
