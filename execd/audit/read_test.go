package audit

import (
	"encoding/json/v2"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/policy"
)

func TestRead(t *testing.T) {
	dir := t.TempDir()
	now := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	l := mustOpen(t, dir, Options{FileBytes: 1500, Now: func() time.Time { now = now.Add(time.Second); return now }})
	for i := range 40 {
		caller := policy.Caller{UID: i % 2, PID: i, Via: "socket"}
		mustAppend(t, l, Record{Type: TypeRelease, Exec: fmt.Sprint("e", i), Caller: &caller, Decision: &Decision{ID: fmt.Sprint("d", i)}})
	}
	l.Close()
	report := mustVerify(t, dir)
	if report.Files < 5 {
		t.Fatalf("%d files", report.Files)
	}
	numbers := func(q Query, last int64) (list []int64) {
		if q.Limit == 0 {
			q.Limit = 7
		}
		for pages := 0; ; pages++ {
			page, err := Read(dir, q, last)
			if err != nil || len(page.Records) > q.Limit || pages > 100 {
				t.Fatalf("%+v: %d records, %v", q, len(page.Records), err)
			}
			for _, line := range page.Records {
				var f found
				if err := json.Unmarshal(line, &f); err != nil {
					t.Fatal(err)
				}
				list = append(list, f.Sequence)
			}
			if page.Next == 0 {
				return list
			}
			q.From = page.Next
		}
	}
	all := numbers(Query{}, 0)
	if int64(len(all)) != report.Last || all[0] != 1 || !slices.IsSorted(all) {
		t.Errorf("all: %v of %d", all, report.Last)
	}
	if got := numbers(Query{From: 11, To: 13}, 0); !slices.Equal(got, []int64{11, 12, 13}) {
		t.Errorf("11..13: %v", got)
	}
	if got := numbers(Query{}, 5); !slices.Equal(got, []int64{1, 2, 3, 4, 5}) {
		t.Errorf("what isn't durable: %v", got)
	}
	if got := numbers(Query{From: report.Last + 1}, 0); got != nil {
		t.Errorf("beyond the end: %v", got)
	}
	one := numbers(Query{Decision: "d30"}, 0)
	if len(one) != 1 || !slices.Equal(one, numbers(Query{Exec: "e30"}, 0)) {
		t.Errorf("one decision: %v", one)
	}
	if got := numbers(Query{Type: TypeRotate}, 0); len(got) != report.Files-1 {
		t.Errorf("rotations: %v", got)
	}
	if got := numbers(Query{Of: &policy.Caller{UID: 1, Via: "socket", PID: 99}}, 0); len(got) != 20 {
		t.Errorf("one caller's: %v", got)
	}
	since := time.Date(2026, 12, 1, 0, 0, 10, 0, time.UTC)
	if got := numbers(Query{Since: since, Until: since.Add(2 * time.Second)}, 0); len(got) != 2 {
		t.Errorf("two seconds: %v", got)
	}
	if err := os.WriteFile(filepath.Join(dir, fileName(1)), []byte("rubbish\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if page, err := Read(dir, Query{Limit: 1}, 0); err == nil {
		t.Errorf("rubbish: %+v", page)
	}
}
