package names

import "time"

// cached is a kept answer that still holds, with what is left of its time.
func (r *Resolver) cached(name string, now time.Time) (Answer, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	kept, ok := r.kept[name]
	if !ok {
		return Answer{}, false
	}
	left := kept.expires.Sub(now)
	if left <= 0 {
		delete(r.kept, name)
		return Answer{}, false
	}
	kept.answer.TTL = left
	return kept.answer, true
}

// evictionLook is how many entries are looked at for one that is over, when the cache is full.
const evictionLook = 16

func (r *Resolver) keep(name string, answer Answer) {
	now := r.config.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.kept[name]; !known && len(r.kept) >= r.config.Entries {
		r.evict(now)
	}
	r.kept[name] = entry{answer: answer, expires: now.Add(answer.TTL)}
}

// evict drops what is over among a few entries, or else any: a map's order is a random one, and an answer that is missing is asked for again.
func (r *Resolver) evict(now time.Time) {
	looked, victim, dropped := 0, "", false
	for name, kept := range r.kept {
		if !kept.expires.After(now) {
			delete(r.kept, name)
			dropped = true
		} else {
			victim = name
		}
		if looked++; looked == evictionLook {
			break
		}
	}
	if !dropped {
		delete(r.kept, victim)
	}
}
