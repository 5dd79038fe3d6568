package events

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"regexp"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandboxd/sandboxd/execd/audit"
)

// Options of a teller.
type Options struct {
	// Server is the API server, https://HOST:PORT.
	Server string
	// Credentials is a directory with token and ca.crt, as the kubelet projects them.
	Credentials string
	// Namespace, Pod and PodUID are whom events are about; the uid may be empty.
	Namespace, Pod, PodUID string

	// SeriesEvery is how often one series is sent at most, Quiet after how long without a new one it is over. Burst requests may be made at once, and one more
	// each Refill; each takes at most Timeout. 0: as [DefaultOptions].
	SeriesEvery, Quiet time.Duration
	Burst              int
	Refill             time.Duration
	Timeout            time.Duration

	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	def := func(d *time.Duration, value time.Duration) {
		if *d == 0 {
			*d = value
		}
	}
	def(&o.SeriesEvery, 30*time.Second)
	def(&o.Quiet, 10*time.Minute)
	def(&o.Refill, 10*time.Second)
	def(&o.Timeout, 10*time.Second)
	if o.Burst == 0 {
		o.Burst = 10
	}
	return o
}

var dnsName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`)

// Validate names what is missing.
func (o Options) Validate() error {
	var wrong []error
	server, err := url.Parse(o.Server)
	if err != nil || server.Scheme != "https" || server.Host == "" || server.Path != "" || server.User != nil {
		wrong = append(wrong, fmt.Errorf("events: server %q: want https://HOST:PORT", o.Server))
	}
	if !filepath.IsAbs(o.Credentials) {
		wrong = append(wrong, fmt.Errorf("events: credentials %q: want the absolute path of a directory with token and ca.crt", o.Credentials))
	}
	// An event's name is the pod's and 17 characters more.
	if !dnsName.MatchString(o.Pod) || len(o.Pod) > 236 {
		wrong = append(wrong, fmt.Errorf("events: pod %q: want the pod's name", o.Pod))
	}
	if !dnsName.MatchString(o.Namespace) {
		wrong = append(wrong, fmt.Errorf("events: namespace %q: want the pod's namespace", o.Namespace))
	}
	return errors.Join(wrong...)
}

// mostQueued are what may wait to be taken into a series.
const mostQueued = 256

// Teller sends events, in a goroutine of its own.
type Teller struct {
	options Options
	client  *client
	queue   chan told
	lost    atomic.Int64
	stop    context.CancelFunc
	ended   sync.WaitGroup
	// broke says that the last request failed: told once, however often.
	broke bool
}

// New starts one.
func New(o Options) (*Teller, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	ctx, stop := context.WithCancel(context.Background())
	t := &Teller{
		options: o, queue: make(chan told, mostQueued), stop: stop,
		client: &client{o: o, base: o.Server + "/apis/events.k8s.io/v1/namespaces/" + o.Namespace + "/events"},
	}
	t.ended.Go(func() { t.run(ctx) })
	return t, nil
}

// Tell hears of a record that the log has. It never waits: what comes while the queue is full is counted, and lost to events, not to the log.
func (t *Teller) Tell(sequence int64, r audit.Record) {
	event, is := of(sequence, r, time.Now())
	if !is {
		return
	}
	select {
	case t.queue <- event:
	default:
		t.lost.Add(1)
	}
}

// Close sends what is still there, within one request's time, and ends.
func (t *Teller) Close() {
	t.stop()
	t.ended.Wait()
}

func (t *Teller) run(ctx context.Context) {
	defer t.client.close()
	b := newBook(t.options, time.Now())
	ticker := time.NewTicker(min(time.Second, t.options.Refill))
	defer ticker.Stop()
	for {
		select {
		case event := <-t.queue:
			b.note(event)
		case <-ticker.C:
			if n := t.lost.Swap(0); n > 0 {
				t.options.Logger.Warn("events: more than can be told", "lost", n)
			}
		case <-ctx.Done():
			t.flush(b)
			return
		}
		t.sendDue(ctx, b)
	}
}

// flush sends what was never sent, as much as the bucket lets through.
func (t *Teller) flush(b *book) {
	ctx, cancel := context.WithTimeout(context.Background(), min(t.options.Timeout, 2*time.Second))
	defer cancel()
	for {
		select {
		case event := <-t.queue:
			b.note(event)
			continue
		default:
		}
		break
	}
	b.every = 0
	t.sendDue(ctx, b)
}

func (t *Teller) sendDue(ctx context.Context, b *book) {
	for {
		s := b.next(time.Now())
		if s == nil {
			return
		}
		count := s.count
		name, err := t.client.send(ctx, s)
		switch {
		case err == nil || s.name == "" && there(err):
			b.done(s, name, count, time.Now())
			t.broke = false
			continue
		case gone(err) && s.name != "":
			s.name = "" // made again, with its whole count
			continue
		}
		if ctx.Err() != nil {
			return
		}
		givenUp := b.failed(s, retryAfter(err), time.Now())
		if !t.broke || givenUp {
			t.options.Logger.Warn("events: not told", "reason", s.key.reason, "rules", s.key.rules, "count", count, "error", err)
		}
		t.broke = true
	}
}
