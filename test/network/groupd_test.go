package network

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"testing"
	"time"
)

func TestGroupD(t *testing.T) { behindTheFence(t, rows) }

// behindTheFence tries rows in a sandbox that is its network and nothing else.
func behindTheFence(t *testing.T, rows []row) {
	w := New(t)
	for i, row := range rows {
		t.Run(row.id+" "+row.name, func(t *testing.T) {
			s := newSandbox(t, w, row.rules)
			before := w.AllAccepted()
			said := s.run(t, row.filled(t)...)
			if !regexp.MustCompile(row.says).MatchString(said) {
				t.Errorf("row %d, %s\nsays %s\nwant %s", i, row.command, said, row.says)
			}
			if told, right := toldOf(row.told, s.refusals); !right {
				t.Errorf("told %q, want %q", told, row.told)
			}
			row.neverElsewhere(t, w, before)
		})
	}
}

// filled is the command, with what it asks for of the daemon's host: HOSTPORT is a port of its loopback, ABSTRACT the name of a unix socket there.
func (r row) filled(t *testing.T) []string {
	command := slices.Clone(r.command)
	for i, arg := range command {
		switch arg {
		case "HOSTPORT":
			_, port, err := net.SplitHostPort(listening(t, "tcp", "127.0.0.1:0"))
			if err != nil {
				t.Fatal(err)
			}
			command[i] = port
		case "ABSTRACT":
			command[i] = listening(t, "unix", fmt.Sprintf("@sandboxd-test-%d", os.Getpid()))
		}
	}
	return command
}

// neverElsewhere: no host has taken a connection but those that may.
func (r row) neverElsewhere(t *testing.T, w *World, before map[netip.AddrPort]int) {
	t.Helper()
	for at, count := range w.AllAccepted() {
		if count > before[at] && !slices.Contains(r.reaches, at.Addr()) {
			t.Errorf("%s was reached", at)
		}
	}
}

// listening is where somebody listens in the namespace that the daemon lives in.
func listening(t *testing.T, network, address string) string {
	listener, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	return listener.Addr().String()
}

// D18. The first answer is public, the next private: the relay dials what it has checked, when it has checked it.
func TestRebinding(t *testing.T) {
	w := New(t)
	s := newSandbox(t, w, "allow "+RebindingName)
	// The client keeps the address of the first answer, as a pinned one would be; upstream's answer holds for no longer than a second.
	said := s.run(t, shell(`
address=$(dig +short `+RebindingName+`)
for i in 1 2; do
	curl -sS --cacert $CA --resolve `+RebindingName+`:443:$address https://`+RebindingName+`/ || echo failed
	sleep 1.1
done`)...)
	if want := `^rebind\.example\.net host=(?s:.*)failed exit 0$`; !regexp.MustCompile(want).MatchString(said) {
		t.Errorf("says %s\nwant %s", said, want)
	}
	if w.Accepted(Rebinding, 443) != 1 || w.Accepted(Private, 443) != 0 {
		t.Errorf("the public host took %d connections, the private one %d", w.Accepted(Rebinding, 443), w.Accepted(Private, 443))
	}
}

// D34. A transfer that the rules don't allow any more ends within a second, as a reset; one that they do goes on.
func TestTighterRulesCut(t *testing.T) {
	w := New(t)
	s := newSandbox(t, w, "allow big.example.net, allow a.example.net")
	type end struct {
		said string
		at   time.Time
	}
	ended := map[string]chan end{"big": make(chan end), "a": make(chan end)}
	for name, ends := range ended {
		go func() {
			said := s.run(t, shell(`curl -sS --limit-rate 8M --cacert $CA https://`+name+`.example.net/big | wc -c`)...)
			ends <- end{said, time.Now()}
		}()
	}
	deadline := time.Now().Add(20 * time.Second)
	for (w.Sent(Big) == 0 || w.Sent(Shared) == 0) && time.Now().Before(deadline) {
		time.Sleep(10 * time.Millisecond)
	}
	tightened := time.Now()
	s.judgeBy(t, "allow a.example.net")
	s.relay.Tighten()
	big := <-ended["big"]
	if !regexp.MustCompile(`curl: \((55|56)\) .*eset by peer`).MatchString(big.said) {
		t.Errorf("the one that is cut says %s", big.said)
	}
	if took := big.at.Sub(tightened); took > time.Second {
		t.Errorf("cut after %s", took)
	}
	if a := <-ended["a"]; !regexp.MustCompile(`^33554432 exit 0$`).MatchString(a.said) {
		t.Errorf("the one that goes on says %s", a.said)
	}
}

// D36. Relay and names are gone: nothing passes, and that is told at once.
func TestNothingPassesWithoutTheDaemon(t *testing.T) {
	w := New(t)
	s := newSandbox(t, w, "default allow")
	s.relay.Close()
	if err := s.fenced.Shut(); err != nil {
		t.Fatal(err)
	}
	before := w.AllAccepted()
	for _, command := range [][]string{python(raw, Public.String(), "443", "x"), python(raw, Both6.String(), "443", "x"), python(udp, "8.8.8.8", "53")} {
		if said := s.run(t, command...); !regexp.MustCompile(refused).MatchString(said) {
			t.Errorf("%s says %s", command[3:], said)
		}
	}
	if after := w.AllAccepted(); !maps.Equal(before, after) {
		t.Errorf("before %v, after %v", before, after)
	}
}
