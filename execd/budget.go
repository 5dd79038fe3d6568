package execd

import (
	"context"
	"fmt"
	"sync/atomic"

	"golang.org/x/sync/semaphore"

	"github.com/sandboxd/sandboxd/policy"
)

// budget bounds memory that requests take together: a number of requests alone bounds none, since one may be of some bytes or of some megabytes.
// What is taken is reserved before it is used, and nothing is reserved that isn't there.
type budget struct {
	most   int64
	free   *semaphore.Weighted
	held   atomic.Int64
	refuse error
}

func newBudget(most int64, refuse string) *budget {
	return &budget{most: most, free: semaphore.NewWeighted(most), refuse: &busyError{refuse}}
}

// busyError is [ErrBusy] that says what there is too much of.
type busyError struct{ what string }

func (e *busyError) Error() string        { return e.what }
func (e *busyError) Is(target error) bool { return target == ErrBusy }

// take reserves without waiting.
func (b *budget) take(bytes int64) error {
	if !b.free.TryAcquire(bytes) {
		return b.refuse
	}
	b.held.Add(bytes)
	return nil
}

// await reserves as soon as there is room, in the order of those who wait: one who wants much is not overtaken for ever by those who want little.
func (b *budget) await(ctx context.Context, bytes int64) error {
	if err := b.free.Acquire(ctx, bytes); err != nil {
		return b.refuse
	}
	b.held.Add(bytes)
	return nil
}

func (b *budget) give(bytes int64) {
	if bytes > 0 {
		b.held.Add(-bytes)
		b.free.Release(bytes)
	}
}

// What a request takes of memory, measured: TestMemoryIsBounded holds it.
const (
	// bodyWeight is for a body on its way: its text, what its buffer grows by, and what is parsed out of it. Once it is parsed, its length is what stays.
	bodyWeight = 3
	// memberWeight is for each element of a list and each member of an object, which the parser makes a value of: of "{}," in a list of rules, 84 times its
	// text, and only then counts them.
	memberWeight = 256
	// outputWeight is for each byte of output that may be kept: what was captured, and the text that is made of it.
	outputWeight = 3
	// inlineWeight is for each byte of files that an answer may carry: the content, and its base64 as it grows.
	inlineWeight = 4
	// chunkBytes is the piece in which a body of unknown length is read, and reserved.
	chunkBytes = 64 << 10
)

// share is what one request has of a budget.
type share struct {
	budget *budget
	bytes  int64
}

// resize reserves the difference to what the request has, or gives it back.
func (s *share) resize(bytes int64) error {
	if bytes > s.bytes {
		if err := s.budget.take(bytes - s.bytes); err != nil {
			return err
		}
	} else {
		s.budget.give(s.bytes - bytes)
	}
	s.bytes = bytes
	return nil
}

func (s *share) end() {
	if s.budget != nil {
		s.budget.give(s.bytes)
		s.bytes = 0
	}
}

// outputStreams is how many streams of an exec are kept. valueMemory is for the value of a run, as long as that is in memory, and for what moves it when it
// is in a file, whatever its length.
const (
	outputStreams = 2
	valueMemory   = 1 << 20
)

// outputShare is what the output of a request may take: all there is, for one that may take more.
func (b *budget) outputShare(limit int64) int64 {
	return min(outputStreams*outputWeight*limit+valueMemory, b.most)
}

// holds says whether there is room for the output of a request at all.
func (b *budget) holds(limit int64) error {
	if most := (b.most - valueMemory) / (outputStreams * outputWeight); limit > most {
		return &deniedError{[]policy.Reason{{
			Rule: "host.output", Field: "limits.outputBytes",
			Message: fmt.Sprintf("this daemon has memory for outputBytes up to %d, not for %d; serve --output-memory gives it more", most, limit),
		}}}
	}
	return nil
}

// inlines says whether there is room for so many bytes of files in an answer.
func (b *budget) inlines(bytes int64) error {
	if most := b.most / (2 * inlineWeight); bytes > most {
		return badField("outputs.inlineBytes", fmt.Sprintf("this daemon has memory for %d, not for %d; serve --output-memory gives it more", most, bytes))
	}
	return nil
}
