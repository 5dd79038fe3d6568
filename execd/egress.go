package execd

import (
	"context"
	"sync/atomic"

	"github.com/sandboxd/sandboxd/execd/audit"
)

// egress writes down what programs do with their networks. Those who tell of it serve connections and must not wait for a disk: what comes faster
// than it can be written is counted and the count written with the next.
type egress struct {
	service *Service
	events  chan egressEvent
	lost    atomic.Int64
}

type egressEvent struct {
	sandbox, exec string
	egress        audit.Egress
}

// mostEgress are the events that may wait to be written.
const mostEgress = 1024

func newEgress(s *Service) *egress {
	return &egress{service: s, events: make(chan egressEvent, mostEgress)}
}

// tell hands an event of a sandbox over, and of the exec that caused it if that is known, and never waits.
func (e *egress) tell(sandbox, exec string, event audit.Egress) {
	select {
	case e.events <- egressEvent{sandbox, exec, event}:
	default:
		e.lost.Add(1)
	}
}

// write writes until the service's life ends, and then what is left.
func (e *egress) write() {
	for {
		select {
		case event := <-e.events:
			e.record(event)
		case <-e.service.life.Done():
			for {
				select {
				case event := <-e.events:
					e.record(event)
				default:
					return
				}
			}
		}
	}
}

func (e *egress) record(event egressEvent) {
	event.egress.Suppressed += int(e.lost.Swap(0))
	r := audit.Record{Type: audit.TypeEgress, Sandbox: event.sandbox, Exec: event.exec, Egress: &event.egress}
	ctx, cancel := context.WithTimeout(context.Background(), e.service.config.RecordTimeout)
	defer cancel()
	if _, err := e.service.log.Note(ctx, r); err != nil {
		e.service.logger.Error("audit", "type", r.Type, "error", err)
	}
}
