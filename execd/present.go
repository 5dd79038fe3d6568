package execd

import "sync"

// present are the execs that a sandbox's network may be used by. While there is one, what is asked of the network is its doing; of several nobody can tell.
type present struct {
	mu  sync.Mutex // guards ids
	ids map[string]struct{}
}

func (p *present) add(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ids == nil {
		p.ids = map[string]struct{}{}
	}
	p.ids[id] = struct{}{}
}

func (p *present) remove(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.ids, id)
}

// only is the one that is there; empty where there are more, or none.
func (p *present) only() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.ids) == 1 {
		for id := range p.ids {
			return id
		}
	}
	return ""
}
