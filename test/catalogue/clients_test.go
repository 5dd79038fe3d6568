package catalogue

import (
	"bufio"
	"encoding/json/v2"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/execd"
	"github.com/sandboxd/sandboxd/execd/audit"
)

// B20: a client that goes away takes its exec with it, however it goes and however it listens.
func TestClientGoesAway(t *testing.T) {
	t.Parallel()
	f := small(t)
	d := f.daemons[""]
	for i, one := range []struct {
		what   string
		stream bool
		// half closes the writing side only. net/http takes the end of what a client sends for the client's own.
		half bool
	}{
		{"one that waits for its answer", false, false},
		{"one that reads a stream", true, false},
		{"one that only stops sending", false, true},
	} {
		t.Run(one.what, func(t *testing.T) {
			mark := fmt.Sprint(7000 + i)
			argv := fmt.Sprintf(`["%s","sleep","%s"]`, f.probe, mark)
			body := fmt.Sprintf(`{"stream":%t,"command":{"argv":%s},"limits":{"timeoutSeconds":3600}}`, one.stream, argv)
			conn, err := net.Dial("unix", d.socket)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			fmt.Fprintf(conn, "POST /v1/exec HTTP/1.1\r\nHost: sandboxd\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
			waitFor(t, f.probe+"\x00sleep\x00"+mark+"\x00")
			if one.half {
				if err := conn.(*net.UnixConn).CloseWrite(); err != nil {
					t.Fatal(err)
				}
			} else {
				conn.Close()
			}
			for deadline := time.Now().Add(soon); len(processesWith(t, f.probe+"\x00sleep\x00"+mark)) > 0; time.Sleep(5 * time.Millisecond) { // polls the kernel's state
				if time.Now().After(deadline) {
					t.Fatal("it runs on")
				}
			}
			last := d.recordedFor(t, mark)
			if last.Ending == nil || last.Ending.Outcome != string(execd.OutcomeCancelled) || !last.Ending.TreeEmpty {
				t.Errorf("on record as %+v, want %s", last.Ending, execd.OutcomeCancelled)
			}
			if !t.Failed() {
				count.hold()
			}
		})
	}
}

// recordedFor waits for the last record of the exec that has a word in its command line.
func (d *daemon) recordedFor(t *testing.T, word string) audit.Record {
	t.Helper()
	for deadline := time.Now().Add(soon); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) { // the last record isn't waited for by anybody
		d.read(t)
		for _, list := range d.records {
			if list[0].Request != nil && strings.Contains(strings.Join(list[0].Request.Argv, " "), word) {
				if last := list[len(list)-1]; last.Ending != nil {
					return last
				}
			}
		}
	}
	t.Errorf("no record of the end of %s", word)
	return audit.Record{}
}

// B13: an end at the deadline has one verdict, never an exit and a time-out. The program sleeps for as long as it may run, so that either may win.
func TestDeadlineRace(t *testing.T) {
	t.Parallel()
	f := small(t)
	verdicts := map[execd.Outcome]int{}
	for i := range 40 {
		limit := 0.1 + float64(i-20)*0.0005
		r := row{id: "B13", what: "an end at the deadline", body: fmt.Sprintf(`"limits":{"timeoutSeconds":%.4f}`, limit), run: []string{"PROBE", "sleep", "0.095"}}
		a := f.ask(t, r)
		a.read(t)
		verdicts[a.reply.Outcome]++
		r.outcome = "timeout"
		if a.reply.Outcome == execd.OutcomeOK {
			r.outcome = "ok"
		}
		a.row = r
		a.judge(t)
	}
	t.Logf("verdicts: %v", verdicts)
	if !t.Failed() {
		count.hold()
	}
}

// C15: more than a body may have, and bodies and answers that stop half way, cost their own connection and nothing else.
func TestRequestsThatStop(t *testing.T) {
	t.Parallel()
	f := small(t)
	d := f.daemons[""]
	status, data, err := d.do(t.Context(), "POST", "/v1/exec", `{"command":{"argv":["true"],"stdin":"`+strings.Repeat("x", 9<<20)+`"}}`)
	var failure execd.Error
	if err != nil || status != http.StatusRequestEntityTooLarge || json.Unmarshal(data, &failure) != nil || failure.Code != "TOO_LARGE" {
		t.Errorf("9 MB: %d %.200s %v, want 413 TOO_LARGE", status, data, err)
	}
	conn, err := net.Dial("unix", d.socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST /v1/exec HTTP/1.1\r\nHost: sandboxd\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{\"comm")
	if err := conn.(*net.UnixConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || response.StatusCode != http.StatusBadRequest {
		t.Errorf("half a body: %+v %v, want 400", response, err)
	} else {
		response.Body.Close()
	}
	a := f.ask(t, row{id: "C15", what: "the next one", run: []string{"PROBE", "exit", "0"}})
	a.judge(t)
	if !t.Failed() {
		count.hold()
	}
}

// small is a fixture of one daemon and nobody to attack.
func small(t *testing.T) *fixture {
	t.Helper()
	bin := binaries(t)
	f := &fixture{bin: bin, show: shown(t, bin), daemons: map[string]*daemon{}}
	f.probe = filepath.Join(f.show, "probe")
	f.daemons[""] = startDaemon(t, bin, "--show", f.show)
	f.tier = string(f.daemons[""].status(t).Host.Tier)
	return f
}
