package execd

import (
	"bytes"
	"encoding/json/v2"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/sandboxd/sandboxd/execd/audit"
	"github.com/sandboxd/sandboxd/policy"
)

func (d *daemon) auditPage(t *testing.T, query string) (AuditPage, []auditLine) {
	t.Helper()
	got := d.do(t, "GET", "/v1/audit"+query, "")
	var page AuditPage
	if err := json.Unmarshal(got.body, &page, json.RejectUnknownMembers(true)); err != nil || got.status != 200 {
		t.Fatalf("%s: %d %s: %v", query, got.status, got.body, err)
	}
	lines := make([]auditLine, len(page.Records))
	for i, record := range page.Records {
		if err := json.Unmarshal(record, &lines[i]); err != nil {
			t.Fatal(err)
		}
	}
	return page, lines
}

type auditLine struct {
	Sequence int64 `json:"seq"`
	auditRecord
}

// TestAuditOverTheAPI: a decision is found by its id, its exec by its own, in pages of any size, and what is asked for wrongly is named.
func TestAuditOverTheAPI(t *testing.T) {
	d := serve(t, testConfig(t))
	ran := d.do(t, "POST", "/v1/exec", `{"command":{"argv":["true"]}}`).reply(t)
	denied := d.do(t, "POST", "/v1/exec", `{"command":{"argv":["true"]},"securityContext":{"privileged":true}}`).reply(t)

	page, found := d.auditPage(t, "?decision="+ran.Decision.ID)
	if len(found) != 1 || found[0].Type != audit.TypeRelease || found[0].Sequence != ran.AuditSequence || page.Own {
		t.Errorf("the decision of what ran: %+v of %+v", found, page)
	}
	if _, found = d.auditPage(t, "?exec="+ran.ID); len(found) != 2 || found[1].Type != audit.TypeOutcome || found[1].Caller == nil {
		t.Errorf("what ran: %+v", found)
	}
	if _, found = d.auditPage(t, "?type=decision&decision="+denied.Decision.ID); len(found) != 1 || found[0].Decision.Allow {
		t.Errorf("what was denied: %+v", found)
	}
	all, seen, from := 0, int64(0), int64(1)
	for {
		page, found = d.auditPage(t, fmt.Sprintf("?limit=2&from=%d", from))
		for _, line := range found {
			if line.Sequence != seen+1 {
				t.Fatalf("record %d follows %d", line.Sequence, seen)
			}
			seen, all = line.Sequence, all+1
		}
		if page.Next == 0 {
			break
		}
		from = page.Next
	}
	if int64(all) != page.Last || page.Last < 4 {
		t.Errorf("%d records in pages, the last is %d", all, page.Last)
	}
	if _, found = d.auditPage(t, "?since=2999-01-01T00:00:00Z"); len(found) != 0 {
		t.Errorf("from the future: %+v", found)
	}
	for query, field := range map[string]string{
		"?type=releases": "query.type", "?from=0": "query.from", "?from=3&to=2": "query.from", "?limit=1001": "query.limit", "?since=yesterday": "query.since",
		"?decison=x": "query.decison", "?exec=a&exec=b": "query.exec",
	} {
		got := d.do(t, "GET", "/v1/audit"+query, "")
		if e := got.failure(t); got.status != 400 || e.Field != field {
			t.Errorf("%s: %d, field %q, want 400 and %q: %s", query, got.status, e.Field, field, e.Message)
		}
	}
}

// TestOthersSeeTheirOwnRecords: who isn't the daemon's user, nor root, reads what names it.
func TestOthersSeeTheirOwnRecords(t *testing.T) {
	for caller, all := range map[policy.Caller]bool{
		{UID: syscall.Geteuid(), Via: "socket"}:                 true,
		{UID: 0, Via: "socket"}:                                 true,
		{UID: 65534, Via: "socket"}:                             false,
		{UID: syscall.Geteuid(), Via: "opensandbox", Name: "a"}: false,
	} {
		if seesAll(caller) != all {
			t.Errorf("%+v sees all: %t", caller, !all)
		}
	}
	dir := t.TempDir()
	log, err := audit.Open(dir, audit.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	for _, uid := range []int{1, 2} {
		caller := policy.Caller{UID: uid, PID: uid, Via: "socket"}
		if _, err := log.Append(t.Context(), audit.Record{Type: audit.TypeDecision, Caller: &caller}); err != nil {
			t.Fatal(err)
		}
	}
	page, err := audit.Read(dir, audit.Query{Of: &policy.Caller{UID: 2, PID: 77, Via: "socket"}, Limit: 10}, 0)
	if err != nil || len(page.Records) != 1 || !bytes.Contains(page.Records[0], []byte(`"uid":2`)) {
		t.Errorf("%s, %v", page.Records, err)
	}
}

// noReader is a copy that nobody reads.
type noReader struct{}

func (noReader) Write([]byte) (int, error) { return 0, syscall.EPIPE }

// TestACopyThatFailsReleasesNothing: what is on the disk and not in the copy isn't recorded as was asked.
func TestACopyThatFailsReleasesNothing(t *testing.T) {
	c := testConfig(t)
	c.AuditCopy = noReader{}
	if s, err := New(t.Context(), c); !errors.Is(err, syscall.EPIPE) {
		if err == nil {
			_ = s.Close(t.Context())
		}
		t.Errorf("a daemon whose start isn't copied: %v", err)
	}
	c = testConfig(t)
	out := &breaking{}
	c.AuditCopy = out
	s, err := New(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close(t.Context()) }()
	mustBe(t, s.Exec(t.Context(), command("true"), Options{}), OutcomeOK)
	if !strings.Contains(out.String(), `"type":"release"`) {
		t.Errorf("the copy has no release: %s", out)
	}
	out.broken.Store(true)
	reply := s.Exec(t.Context(), command("true"), Options{})
	mustBe(t, reply, OutcomeInfra)
	if ready := s.Status(); ready.Ready || !strings.Contains(ready.Audit.Error, "copy of the log") {
		t.Errorf("ready with a copy that fails: %+v", ready.Audit)
	}
	out.broken.Store(false)
}

type breaking struct {
	mu     sync.Mutex
	buffer bytes.Buffer
	broken atomic.Bool
}

func (b *breaking) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}

func (b *breaking) Write(data []byte) (int, error) {
	if b.broken.Load() {
		return 0, syscall.EPIPE
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(data)
}
