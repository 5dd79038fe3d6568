package faults

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// mark is what long inputs are made of: no answer has one but in its value.
const mark = '~'

// longBody is a run whose inputs are one string of so many bytes: a reader, as nobody needs to hold it.
func longBody(length int64, code string) io.Reader {
	return io.MultiReader(strings.NewReader(`{"timeoutSeconds":300,"code":"`+code+`","inputs":"`), io.LimitReader(marks{}, length), strings.NewReader(`"}`))
}

type marks struct{}

func (marks) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = mark
	}
	return len(p), nil
}

// long sends one, and counts the marks of the answer; around is the rest of it.
func (d *daemon) long(t *testing.T, length int64, code, accept string) (status int, count int64, around string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://sandboxd/v1/run", longBody(length, code))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", accept)
	response, err := d.client.Do(request)
	if err != nil {
		return 0, 0, err.Error()
	}
	defer response.Body.Close()
	var got counter
	if _, err := io.Copy(&got, response.Body); err != nil {
		t.Error(err)
	}
	return response.StatusCode, got.marks, got.around.String()
}

type counter struct {
	marks  int64
	around bytes.Buffer
}

func (c *counter) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		n := len(rest) - len(bytes.TrimLeft(rest, string(mark)))
		c.marks += int64(n)
		rest = rest[n:]
		before, _, _ := bytes.Cut(rest, []byte{mark})
		c.around.Write(before)
		rest = rest[len(before):]
	}
	return len(p), nil
}

// TestLongIsFlat: a hundred megabytes in and out take nothing of the daemon's memory that depends on them, whole or as events; nor do twenty at once.
func TestLongIsFlat(t *testing.T) {
	needRoot(t)
	const mebibyte = 1 << 20
	const length = 100_000_000
	const most = 32 // MiB
	d := start(t, binaries(t, ""), stateDir(t))
	for range 3 {
		d.ask(t, "/v1/run", `{"code":"_return = inputs","inputs":1}`, "")
	}
	// The peak begins again from what the daemon has now: its start took more.
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", d.Process.Pid), []byte("5"), 0o600); err != nil {
		t.Fatal(err)
	}
	before := d.memory(t, "VmHWM")
	for _, accept := range []string{"", "application/x-ndjson"} {
		status, got, around := d.long(t, length, "_return = inputs", accept)
		if status != 200 || got != length || !strings.Contains(around, `"returnValue":"",`) {
			t.Errorf("%q: status %d, value of %d, around it %.1000s", accept, status, got, around)
		}
	}
	one := (d.memory(t, "VmHWM") - before) >> 10
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if status, got, around := d.long(t, 10*mebibyte, "_return = inputs", ""); status != 200 || got != 10*mebibyte {
				t.Errorf("one of twenty: status %d, value of %d, around it %.1000s", status, got, around)
			}
		})
	}
	all.Wait()
	twenty := (d.memory(t, "VmHWM") - before) >> 10
	t.Logf("%d MiB before; %d bytes in and out: %d MiB more; twenty of %d at once: %d MiB more", before>>10, length, one, 10*mebibyte, twenty)
	if one > most || twenty > 2*most {
		t.Errorf("took %d MiB, want %d at most, and for twenty %d, want %d", one, most, twenty, 2*most)
	}
	for _, name := range []string{"sandboxd_request_memory_bytes", "sandboxd_output_memory_bytes", "sandboxd_spool_bytes"} {
		d.awaitMetric(t, name, func(value float64) bool { return value == 0 })
	}
	d.stop(t)
}

// TestLongOnFullDisk: inputs that the disk has no room for are turned away by that name, take nothing from the log beside them, and leave nothing.
func TestLongOnFullDisk(t *testing.T) {
	needRoot(t)
	t.Parallel()
	runtime.LockOSThread() // as in TestFullDisk
	state := stateDir(t)
	for _, err := range []error{
		unix.Unshare(unix.CLONE_NEWNS), unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""), os.MkdirAll(state, 0o700),
		unix.Mount("tmpfs", state, "tmpfs", 0, "size=8m,mode=0700"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _ = unix.Unmount(state, unix.MNT_DETACH) })
	d := start(t, binaries(t, ""), state)
	status, _, text := d.long(t, 16<<20, "_return = 1", "")
	if status != http.StatusInsufficientStorage || !strings.Contains(text, `"NO_SPACE"`) || !strings.Contains(text, "state directory is full") {
		t.Errorf("inputs: %d %s", status, text)
	}
	d.awaitMetric(t, "sandboxd_spool_bytes", func(value float64) bool { return value == 0 })
	// A value is no reason to say that the run has failed.
	status, _, text = d.long(t, 1<<20, "_return = inputs * 10", "")
	if status != 200 || !strings.Contains(text, `"outcome":"ok"`) || !strings.Contains(text, `"returnValueHow":"failed"`) || !strings.Contains(text, "state directory is full") {
		t.Errorf("value: %d %s", status, text)
	}
	if got := d.exec(t, `"argv":["echo","ran"]`, ""); got.Outcome != "ok" {
		t.Errorf("beside it: %+v", got)
	}
	d.awaitMetric(t, "sandboxd_spool_bytes", func(value float64) bool { return value == 0 })
	d.verify(t)
	d.stop(t)
}
