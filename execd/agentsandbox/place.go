package agentsandbox

import (
	"context"
	"sync"

	"github.com/sandboxd/sandboxd/policy"
)

// place is the one sandbox of a façade.
type place struct {
	mu sync.Mutex // guards id, and is held while one is made
	id string
}

// where gives the sandbox of all requests. In a pod it is the container whose launcher has connected. Elsewhere it is made at the first request, and again
// when it has ended by itself, with nothing of it left.
func (f *Facade) where(ctx context.Context, caller policy.Caller) (string, error) {
	if id, shared, err := f.service.SharedSandbox(); shared || err != nil {
		return id, err
	}
	f.place.mu.Lock()
	defer f.place.mu.Unlock()
	if f.place.id != "" {
		if _, err := f.service.FindSandbox(f.place.id, caller); err == nil {
			return f.place.id, nil
		}
	}
	made, err := f.service.MakeSandbox(ctx, policy.Request{Action: policy.ActionSandbox, Caller: caller})
	if err != nil {
		return "", err
	}
	f.place.id = made.ID
	return made.ID, nil
}
