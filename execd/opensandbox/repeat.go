package opensandbox

import (
	"context"
	"crypto/sha256"
	"net/http"

	"github.com/sandboxd/sandboxd/policy"
)

// headerRepeat names a create, so that one that is sent again makes nothing again (draft-ietf-httpapi-idempotency-key-header).
const headerRepeat = "Idempotency-Key"

// longestRepeat bounds a name.
const longestRepeat = 256

// repeatKey is a create that its owner has named.
type repeatKey struct {
	owner policy.Caller
	name  string
}

// repeat is such a create, on its way until done is closed. box is nil when it came to nothing: the next one tries again.
type repeat struct {
	body [sha256.Size]byte
	done chan struct{}
	box  *sandbox
}

// once makes a sandbox, or gives the one that the same owner has made by the same words under the same name, while that is there.
func (f *Facade) once(ctx context.Context, x *exchange, body []byte, create func() (*sandbox, error)) (made *sandbox, err error) {
	name := x.r.Header.Get(headerRepeat)
	if name == "" {
		return create()
	}
	if len(name) > longestRepeat {
		return nil, bad(headerRepeat, "%d bytes, at most %d", len(name), longestRepeat)
	}
	key, mine := repeatKey{x.caller, name}, &repeat{body: sha256.Sum256(body), done: make(chan struct{})}
	for {
		f.mu.Lock()
		other := f.repeats[key]
		if other == nil {
			f.repeats[key] = mine
			f.mu.Unlock()
			break
		}
		f.mu.Unlock()
		if other.body != mine.body {
			return nil, faultf(http.StatusConflict, codeConflict, "%s: another create had this name", headerRepeat)
		}
		select {
		case <-other.done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if other.box != nil {
			return other.box, nil
		}
	}
	defer func() { // also when it fails in a way that nobody foresaw
		f.mu.Lock()
		defer f.mu.Unlock()
		if made == nil || f.sandboxes[made.id] != made {
			delete(f.repeats, key)
		} else {
			mine.box, made.repeat = made, &key
		}
		close(mine.done)
	}()
	return create()
}
