package execd

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/sandboxd/sandboxd/execd/audit"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/rego"
)

// TestReloadsAreRecorded: a bundle that can't be activated leaves the last good one in force, ready and stale; a good one after it is taken.
func TestReloadsAreRecorded(t *testing.T) {
	c := testConfig(t)
	c.PolicyDir = filepath.Join(t.TempDir(), "policy")
	if err := os.CopyFS(c.PolicyDir, rego.Bundle); err != nil {
		t.Fatal(err)
	}
	d := serve(t, c)
	broken := filepath.Join(c.PolicyDir, "broken.rego")
	if err := os.WriteFile(broken, []byte("package sandboxd.broken\n\nx := "), 0o600); err != nil {
		t.Fatal(err)
	}
	d.waitFor(t, `sandboxd_policy_reloads_total{result="stale"} 1`)
	d.waitFor(t, "sandboxd_policy_stale 1")
	if got := d.do(t, "GET", "/readyz", ""); got.status != 200 {
		t.Errorf("with a stale policy: %d %s", got.status, got.body)
	}
	mustBe(t, d.do(t, "POST", "/v1/exec", `{"command":{"argv":["true"]}}`).reply(t), OutcomeOK)
	if err := os.Remove(broken); err != nil {
		t.Fatal(err)
	}
	d.waitFor(t, "sandboxd_policy_stale 0")
	if err := d.stop(); err != nil {
		t.Fatal(err)
	}
	records := readLog(t, c)
	at := slices.IndexFunc(records, func(r audit.Record) bool { return r.Type == audit.TypeReload })
	if at < 0 || records[at].Message == "" || records[at].Daemon.Revision != records[0].Daemon.Revision {
		t.Errorf("no record of the stale reload in %+v", records)
	}
}

// TestAuditSlots: a second service on the same state is refused, or takes the next log where that is wanted.
func TestAuditSlots(t *testing.T) {
	c := testConfig(t)
	first, err := audit.Open(c.auditDir(), audit.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	if _, err := New(t.Context(), c); !errors.Is(err, audit.ErrLocked) {
		t.Fatalf("a second writer: %v", err)
	}
	c.AuditSlots = 2
	second := start(t, c)
	if got := second.Status().Audit.Directory; got != c.auditDir()+".2" {
		t.Errorf("the second log is %s", got)
	}
	mustBe(t, second.Exec(t.Context(), command("true"), Options{}), OutcomeOK)
	if log, err := openLog(c); !errors.Is(err, audit.ErrLocked) {
		log.Close()
		t.Errorf("a third of two: %v", err)
	}
}

func TestStrangersAreRecordedOnceInASecond(t *testing.T) {
	c := testConfig(t)
	s := start(t, c)
	refuse := s.refuseConnections()
	for range 100 {
		refuse(policy.Caller{UID: 4711, Via: "socket"}, "why")
	}
	stop(t, s)
	refused := 0
	for _, r := range readLog(t, c) {
		if r.Type == audit.TypeRefused && r.Caller.UID == 4711 {
			refused++
		}
	}
	if refused < 1 || refused > 3 {
		t.Errorf("%d records of 100 strangers", refused)
	}
}
