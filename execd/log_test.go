package execd

import (
	"bytes"
	"encoding/json/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/sandboxd/sandboxd/execd/audit"
)

// readLog gives the records of a service's log, after it was verified and looked through for the canary.
func readLog(t testing.TB, c Config) []audit.Record {
	t.Helper()
	report, err := audit.Verify(c.auditDir())
	if err != nil || !report.OK() {
		t.Fatalf("Verify = %+v, %+v, %v", report, report.Bad, err)
	}
	files, err := filepath.Glob(filepath.Join(c.auditDir(), "audit-*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var records []audit.Record
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(data, []byte("s3cr3tC4nary")) {
			t.Errorf("the canary is in the log:\n%s", data)
		}
		for line := range bytes.Lines(data) {
			var r audit.Record
			if err := json.Unmarshal(line, &r); err != nil {
				t.Fatal(err)
			}
			records = append(records, r)
		}
	}
	return records
}
