package events

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json/v2"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"go.uber.org/goleak"

	"github.com/sandboxd/sandboxd/execd/audit"
	"github.com/sandboxd/sandboxd/policy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func denial(rule, message string) audit.Record {
	return audit.Record{
		Type: audit.TypeDecision, Request: &audit.Request{Action: policy.ActionExec, Argv: []string{"secret-command"}},
		Decision: &audit.Decision{ID: "d", Reasons: []policy.Reason{{Rule: rule, Message: message}}},
	}
}

// TestWhatIsTold: refusals and what doesn't hold, by rule; nothing of what ran as it must, of dry runs, or of the command.
func TestWhatIsTold(t *testing.T) {
	dry := denial("r", "m")
	dry.DryRun = true
	allowed := audit.Record{Type: audit.TypeOutcome, Decision: &audit.Decision{Allow: true}}
	host := allowed
	host.Refused = []policy.Reason{{Rule: "host.cgroup.memory", Message: "no controller"}}
	for name, test := range map[string]struct {
		record              audit.Record
		reason, rules, note string
	}{
		"denied":      {denial("context.privileged", "privileged: true"), ReasonDenied, "context.privileged", "denied: privileged: true (audit record 7)"},
		"by the host": {host, ReasonDenied, "host.cgroup.memory", "no controller"},
		"mismatch": {audit.Record{Type: audit.TypeMismatch, Verdict: &audit.Verdict{Failed: []policy.Row{{Control: "mount /usr", Want: "ro", Got: "rw"}, {Control: "mount /lib", Want: "ro", Got: "rw"}}}},
			ReasonMismatch, "mount", "mount /usr: want ro, got rw"},
		"drift":  {audit.Record{Type: audit.TypeDrift, Message: "a rule is gone"}, ReasonDrift, "", "a rule is gone"},
		"egress": {audit.Record{Type: audit.TypeEgress, Egress: &audit.Egress{Event: "denied", Name: "x.example", Reason: "default"}}, ReasonEgress, "", "x.example: default"},
		"stale":  {audit.Record{Type: audit.TypeReload, Message: "a.rego:1: no"}, ReasonStale, "", "stays in force: a.rego:1: no"},
		"dry":    {dry, "", "", ""}, "allowed": {allowed, "", "", ""}, "cut": {audit.Record{Type: audit.TypeEgress, Egress: &audit.Egress{Event: "cut"}}, "", "", ""},
		"release": {audit.Record{Type: audit.TypeRelease, Decision: &audit.Decision{Allow: true}}, "", "", ""}, "reload": {audit.Record{Type: audit.TypeReload}, "", "", ""},
	} {
		got, is := of(7, test.record, time.Now())
		if is != (test.reason != "") || is && (got.reason != test.reason || got.rules != test.rules || !strings.Contains(got.note, test.note)) {
			t.Errorf("%s: %+v, %t", name, got, is)
		}
		if strings.Contains(got.note, "secret-command") {
			t.Errorf("%s: the command is told: %s", name, got.note)
		}
	}
	long, _ := of(7, denial("r", "\x1b[31m\n"+strings.Repeat("ä", 5000)), time.Now())
	if len(long.note) > mostNote || !utf8.ValidString(long.note) || strings.ContainsAny(long.note, "\x1b\n") || !strings.HasSuffix(long.note, "(audit record 7)") {
		t.Errorf("a long note: %d bytes, %q", len(long.note), long.note[max(0, len(long.note)-40):])
	}
}

// TestAFloodIsACount: whatever is told in ten minutes, requests are bounded, and so is memory.
func TestAFloodIsACount(t *testing.T) {
	now := time.Unix(0, 0)
	o := Options{}.withDefaults()
	b := newBook(o, now)
	requests, most := 0, 0
	for range 600 {
		for i := range 100 {
			b.note(told{reason: ReasonDenied, action: "Exec", rules: fmt.Sprint("rule", i*7919%1000), at: now})
		}
		for s := b.next(now); s != nil; s = b.next(now) {
			requests++
			b.done(s, "n", s.count, now)
		}
		most = max(most, len(b.open))
		now = now.Add(time.Second)
	}
	if bound := o.Burst + int(600*time.Second/o.Refill) + 1; requests > bound || requests < bound/2 {
		t.Errorf("%d requests for 60,000 denials, want at most %d", requests, bound)
	}
	if most > mostSeries+1 {
		t.Errorf("%d series", most)
	}
	total := 0
	for _, s := range b.open {
		total += s.count
	}
	if total != 60_000 {
		t.Errorf("%d are counted of 60,000", total)
	}
	b.next(now.Add(time.Hour))
	for s := b.next(now.Add(time.Hour)); s != nil; s = b.next(now.Add(time.Hour)) {
		b.done(s, "n", s.count, now.Add(time.Hour))
	}
}

func TestASeriesThatFailsWaitsLongerAndIsGivenUp(t *testing.T) {
	now := time.Unix(0, 0)
	b := newBook(Options{Burst: 1000}.withDefaults(), now)
	b.note(told{reason: ReasonDenied, at: now})
	var waits []time.Duration
	last := now
	for range 10_000 {
		if s := b.next(now); s != nil {
			waits = append(waits, now.Sub(last))
			last = now
			if b.failed(s, 0, now) {
				break
			}
		}
		now = now.Add(time.Second)
	}
	if len(waits) != mostTries || waits[5] <= waits[1] || len(b.open) != 0 {
		t.Errorf("tried after %v, %d are left", waits, len(b.open))
	}
}

// api is a server that takes events, over TLS.
type api struct {
	*httptest.Server
	mu       sync.Mutex
	token    string
	requests []seen
	answer   func(w http.ResponseWriter, r *http.Request) bool
}

type seen struct {
	method, path, media string
	body                map[string]any
}

func newAPI(t *testing.T) *api {
	a := &api{token: "one"}
	a.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		defer a.mu.Unlock()
		if r.Header.Get("Authorization") != "Bearer "+a.token {
			http.Error(w, `{"message":"Unauthorized"}`, http.StatusUnauthorized)
			return
		}
		if a.answer != nil && a.answer(w, r) {
			return
		}
		s := seen{method: r.Method, path: r.URL.Path, media: r.Header.Get("Content-Type")}
		if err := json.UnmarshalRead(r.Body, &s.body); err != nil {
			t.Error(err)
		}
		a.requests = append(a.requests, s)
		w.WriteHeader(http.StatusCreated)
	}))
	a.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	t.Cleanup(a.Close)
	return a
}

func (a *api) got() []seen {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]seen(nil), a.requests...)
}

// wait polls until the server has seen so many requests.
func (a *api) wait(t *testing.T, n int) []seen {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if got := a.got(); len(got) >= n {
			return got
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d requests, want %d", len(a.got()), n)
		}
	}
}

func credentials(t *testing.T, a *api, token string) string {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, "token", token)
	write(t, dir, "ca.crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.Certificate().Raw})))
	return dir
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestEventsAreMadeAndPatched: one object for a denial, a patch of its series for the same again; a token that was replaced is used from then on.
func TestEventsAreMadeAndPatched(t *testing.T) {
	a := newAPI(t)
	dir := credentials(t, a, "one\n")
	teller, err := New(Options{
		Server: a.URL, Credentials: dir, Namespace: "ns", Pod: "it", PodUID: "u", SeriesEvery: time.Millisecond, Refill: time.Millisecond, Timeout: 5 * time.Second,
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer teller.Close()
	teller.Tell(3, denial("context.privileged", "no"))
	first := a.wait(t, 1)[0]
	if first.method != "POST" || first.path != "/apis/events.k8s.io/v1/namespaces/ns/events" || first.media != "application/json" {
		t.Errorf("%+v", first)
	}
	regarding, _ := first.body["regarding"].(map[string]any)
	if first.body["reason"] != ReasonDenied || first.body["action"] != "Exec" || first.body["type"] != "Warning" || regarding["name"] != "it" || regarding["uid"] != "u" ||
		first.body["series"] != nil || first.body["note"] != "denied: no (audit record 3)" {
		t.Errorf("%v", first.body)
	}
	a.mu.Lock()
	a.token = "two"
	a.mu.Unlock()
	write(t, dir, "token", "two")
	teller.Tell(4, denial("context.privileged", "no"))
	second := a.wait(t, 2)[1]
	series, _ := second.body["series"].(map[string]any)
	if second.method != "PATCH" || !strings.HasPrefix(second.path, "/apis/events.k8s.io/v1/namespaces/ns/events/it.") || second.media != "application/merge-patch+json" || series["count"] != 2.0 {
		t.Errorf("%+v", second)
	}
	// Deleted meanwhile, as events are after an hour: made again, with its count.
	a.mu.Lock()
	a.answer = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == "PATCH" {
			http.Error(w, `{"message":"not found"}`, http.StatusNotFound)
		}
		return r.Method == "PATCH"
	}
	a.mu.Unlock()
	teller.Tell(5, denial("context.privileged", "no"))
	third := a.wait(t, 3)[2]
	if series, _ := third.body["series"].(map[string]any); third.method != "POST" || series["count"] != 3.0 {
		t.Errorf("%+v", third)
	}
}

// TestTheTokenGoesNowhereElse: not to a server that the authority doesn't vouch for, and not where a redirect leads.
func TestTheTokenGoesNowhereElse(t *testing.T) {
	a, other := newAPI(t), newAPI(t)
	stranger := credentials(t, a, "one")
	write(t, stranger, "ca.crt", "-----BEGIN CERTIFICATE-----\nbm9uZQ==\n-----END CERTIFICATE-----\n")
	c := &client{o: Options{Credentials: stranger, Namespace: "ns", Pod: "it", Timeout: 5 * time.Second}, base: a.URL + "/x"}
	if _, err := c.send(t.Context(), &series{count: 1}); err == nil || !strings.Contains(err.Error(), "no certificate") {
		t.Errorf("without an authority: %v", err)
	}
	write(t, stranger, "ca.crt", anotherAuthority(t))
	if _, err := c.send(t.Context(), &series{count: 1}); err == nil || !strings.Contains(err.Error(), "unknown authority") || len(a.got()) != 0 {
		t.Errorf("a server that another authority vouches for: %v", err)
	}
	c.close()
	a.answer = func(w http.ResponseWriter, r *http.Request) bool {
		http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		return true
	}
	c = &client{o: Options{Credentials: credentials(t, a, "one"), Namespace: "ns", Pod: "it", Timeout: 5 * time.Second}, base: a.URL + "/x"}
	defer c.close()
	if _, err := c.send(t.Context(), &series{count: 1}); err == nil || !strings.Contains(err.Error(), "307") || len(other.got()) != 0 {
		t.Errorf("a redirect: %v, %d requests elsewhere", err, len(other.got()))
	}
	// The authority is read anew when it changed.
	a.answer = nil
	if _, err := c.send(t.Context(), &series{count: 1}); err != nil {
		t.Error(err)
	}
	write(t, c.o.Credentials, "ca.crt", "rubbish")
	if _, err := c.send(t.Context(), &series{count: 1}); err == nil {
		t.Error("an authority that was taken away vouches")
	}
}

func anotherAuthority(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func TestOptions(t *testing.T) {
	good := Options{Server: "https://10.0.0.1:443", Credentials: "/c", Namespace: "ns", Pod: "a-b.c"}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*Options){
		"plain HTTP": func(o *Options) { o.Server = "http://10.0.0.1" }, "a path": func(o *Options) { o.Server = "https://h/x" }, "no pod": func(o *Options) { o.Pod = "" },
		"a pod that leads elsewhere": func(o *Options) { o.Pod = "a/../b" }, "a namespace with a slash": func(o *Options) { o.Namespace = "a/b" },
		"credentials here": func(o *Options) { o.Credentials = "c" },
	} {
		o := good
		change(&o)
		if o.Validate() == nil {
			t.Errorf("%s is taken", name)
		}
	}
}
