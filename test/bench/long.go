package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// longBytes are of inputs, and of the value.
const longBytes = 100_000_000

// long is the row of long inputs and values: what they take of the daemon's memory, and how fast they are beside an interpreter that reads and writes files.
func long(b *bench) error {
	socket := filepath.Join(b.dir, "long", "sandboxd.sock")
	// The state is on the disk, where the texts are: in memory they would be memory.
	daemon := exec.Command(filepath.Join(b.dir, "sandboxd"), "serve", "--socket", socket, "--state", filepath.Join(b.dir, "longstate"))
	daemon.Stderr = os.Stderr
	if err := daemon.Start(); err != nil {
		return err
	}
	defer func() { _ = daemon.Process.Signal(os.Interrupt); _ = daemon.Wait() }()
	client := clientOf(socket)
	if err := ready(client); err != nil {
		return err
	}
	file := filepath.Join(b.dir, "inputs.json")
	if err := os.WriteFile(file, []byte(`"`+strings.Repeat("x", longBytes)+`"`), 0o600); err != nil {
		return err
	}
	time.Sleep(2 * time.Second) // what only the start has used is given back by then
	proc := fmt.Sprintf("/proc/%d", daemon.Process.Pid)
	idle, err := memoryOf(proc)
	if err != nil {
		return err
	}
	stop, most := watch(proc)
	kinds := []kind{
		{"bare", func() error {
			return exec.Command(interpreter, "-I", "-c", "import json,sys; v = json.load(open(sys.argv[1])); open(sys.argv[2], 'w').write(json.dumps(v))", file, file+".out").Run()
		}},
		{"run", func() error { return sendLong(client) }},
	}
	times, _, err := interleaved(1, 5, kinds)
	close(stop)
	peak := <-most
	if err != nil {
		return err
	}
	rate := func(kind string) float64 { return 2 * longBytes / 1e6 / times[kind].p50().Seconds() }
	b.add("daemon under a run with 100 MB of inputs and 100 MB of value: growth of RSS, and both together by time (an interpreter alone, from file to file)", "flat",
		fmt.Sprintf("+ %.1f MiB (%.2f × idle), %.0f MB/s (%.0f MB/s)", float64(peak-idle)/(1<<20), float64(peak)/float64(idle), rate("run"), rate("bare")),
		met(float64(peak-idle), 16<<20))
	return nil
}

// sendLong sends a run that gives back its inputs, and reads all of the answer.
func sendLong(client *http.Client) error {
	body := io.MultiReader(strings.NewReader(`{"code":"_return = inputs","timeoutSeconds":120,"inputs":"`), io.LimitReader(letters{}, longBytes), strings.NewReader(`"}`))
	response, err := client.Post("http://sandboxd/v1/run", "application/json", body)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	got, err := io.Copy(io.Discard, response.Body)
	if err == nil && (response.StatusCode != http.StatusOK || got < longBytes) {
		err = fmt.Errorf("status %d and %d bytes", response.StatusCode, got)
	}
	return err
}

type letters struct{}

func (letters) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}
