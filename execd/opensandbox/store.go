package opensandbox

import (
	"encoding/json/v2"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sandboxd/sandboxd/policy"
)

// kept is what is known of a sandbox after a restart of the daemon, with which every sandbox ends: who had it, what it was, and for how long its id is
// answered for. Neither its environment nor its tokens are written.
type kept struct {
	ID         string            `json:"id"`
	Owner      policy.Caller     `json:"owner"`
	Created    time.Time         `json:"created"`
	Expires    time.Time         `json:"expires,omitzero"`
	Image      string            `json:"image"`
	Entrypoint []string          `json:"entrypoint"`
	Metadata   map[string]string `json:"metadata,omitempty"`
}

// store has a file for each sandbox.
type store struct{ dir string }

const keptSuffix = ".sandbox"

func (s store) path(id string) string { return filepath.Join(s.dir, id+keptSuffix) }

// put writes a sandbox's file whole, or leaves the one that is there.
func (s store) put(k kept) error {
	data, err := json.Marshal(k)
	if err != nil {
		return err
	}
	fresh := s.path(k.ID) + ".new"
	if err := os.WriteFile(fresh, data, 0o600); err != nil {
		return fmt.Errorf("sandbox %s: %w", k.ID, err)
	}
	return os.Rename(fresh, s.path(k.ID))
}

func (s store) remove(id string) error {
	if err := os.Remove(s.path(id)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// all are the sandboxes that a daemon before this one had.
func (s store) all() ([]kept, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, err
	}
	var list []kept
	for _, entry := range entries {
		if !strings.HasSuffix(entry.Name(), keptSuffix) {
			continue
		}
		data, err := os.ReadFile(filepath.Join(s.dir, entry.Name()))
		if err != nil {
			return nil, err
		}
		var k kept
		if err := json.Unmarshal(data, &k); err != nil || k.ID+keptSuffix != entry.Name() {
			return nil, fmt.Errorf("%s: not what this server writes: %w; remove it", filepath.Join(s.dir, entry.Name()), err)
		}
		list = append(list, k)
	}
	return list, nil
}

// keep writes down what is to be known of a sandbox; mu is held.
func (f *Facade) keep(box *sandbox) error {
	return f.store.put(kept{
		ID: box.id, Owner: box.caller, Created: box.created, Expires: box.expires, Image: box.image, Entrypoint: box.entrypoint, Metadata: box.metadata,
	})
}

// lostRetention is for how long a sandbox without an expiry is answered for that ended with a daemon.
const lostRetention = 24 * time.Hour

// takeUp makes the sandboxes known that a daemon before this one had. All of them have ended with it, and are said to have, until they would have expired or
// somebody deletes them.
func (f *Facade) takeUp() error {
	list, err := f.store.all()
	if err != nil {
		return err
	}
	for _, k := range list {
		until := k.Expires
		if until.IsZero() {
			until = time.Now().Add(lostRetention)
		}
		if !until.After(time.Now()) {
			if err := f.store.remove(k.ID); err != nil {
				return err
			}
			continue
		}
		box := f.config.newSandbox()
		box.id, box.caller, box.created, box.image, box.entrypoint, box.metadata = k.ID, k.Owner, k.Created, k.Image, k.Entrypoint, k.Metadata
		box.lost = true
		box.events.add(box.created, "created from image %s", box.image)
		box.events.now("%v", errLost)
		box.end(errLost)
		if err := f.add(box); err != nil {
			return err
		}
		box.mu.Lock()
		f.expireAt(box, until)
		box.mu.Unlock()
	}
	return nil
}

// errLost is why nothing runs in a sandbox of a daemon before this one.
var errLost = errors.New("the sandbox ended with the daemon that had it")
