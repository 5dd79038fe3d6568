package main

import (
	"bytes"
	"encoding/json/v2"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/sandboxd/sandboxd/execd"
	"github.com/sandboxd/sandboxd/policy"
)

var executeOptions = execd.Options{}

// crowd starts n processes, every second one in a session of its own, and sleeps.
const crowd = `import os, time
for i in range(1000):
    if os.fork() == 0:
        if i % 2: os.setsid()
        time.sleep(600)
        os._exit(0)
print("up", flush=True)
time.sleep(600)`

// kill: 1,001 processes at a deadline, proven gone.
func kill(b *bench) error {
	service, err := b.service(b.memory + "/kill")
	if err != nil {
		return err
	}
	defer service.Close(b.ctx)
	const deadline = 4.0
	r := request(service.box, "python3", "-c", crowd)
	r.Limits = policy.Limits{TimeoutSeconds: deadline, Pids: 2000}
	var late sample
	for range 5 {
		begin := time.Now()
		reply := service.Exec(b.ctx, r, executeOptions)
		took := time.Since(begin)
		stdout, _ := reply.Output()
		if reply.Outcome != execd.OutcomeTimeout || !reply.TreeEmpty || string(stdout) != "up\n" {
			return fmt.Errorf("outcome %s, tree empty %v, stdout %q: %s", reply.Outcome, reply.TreeEmpty, stdout, reply.Message)
		}
		late = append(late, took-time.Duration(deadline*float64(time.Second)))
	}
	b.add("kill of 1,001 processes, half in own sessions, proven empty, after the deadline (median of 5)", "≤ 150 ms", short(late.p50()), met(float64(late.p50()), 150e6))
	return nil
}

// memoryRows: the daemon as a process of its own, idle and while it takes 10 GB of output.
func memoryRows(quick bool) func(*bench) error {
	return func(b *bench) error {
		socket := filepath.Join(b.memory, "s", "sandboxd.sock")
		daemon := exec.Command(filepath.Join(b.dir, "sandboxd"), "serve", "--socket", socket, "--state", filepath.Join(b.memory, "daemon"))
		daemon.Stderr = os.Stderr
		if err := daemon.Start(); err != nil {
			return err
		}
		defer func() { _ = daemon.Process.Signal(os.Interrupt); _ = daemon.Wait() }()
		client := clientOf(socket)
		if err := ready(client); err != nil {
			return err
		}
		time.Sleep(2 * time.Second)
		proc := fmt.Sprintf("/proc/%d", daemon.Process.Pid)
		idle, err := memoryOf(proc)
		if err != nil {
			return err
		}
		b.add("daemon idle, pool filled (RSS)", "≤ 25 MiB", fmt.Sprintf("%.1f MiB", float64(idle)/(1<<20)), met(float64(idle), 25<<20))
		gigabytes := 10
		if quick {
			gigabytes = 1
		}
		before, err := statusNumber(proc, "RssAnon:")
		if err != nil {
			return err
		}
		stop, most := watch(proc)
		begin := time.Now()
		reply, err := send(client, fmt.Sprintf(`{"command":{"argv":["sh","-c","head -c %dG /dev/zero"]},"limits":{"timeoutSeconds":300,"outputBytes":1048576}}`, gigabytes))
		if err != nil {
			return err
		}
		took := time.Since(begin)
		close(stop)
		if reply.Outcome != execd.OutcomeOK || reply.Bytes.Stdout != int64(gigabytes)<<30 {
			return fmt.Errorf("outcome %s, %d bytes: %s", reply.Outcome, reply.Bytes.Stdout, reply.Message)
		}
		grown := <-most - before<<10
		b.add(fmt.Sprintf("daemon under %d GiB of output of one exec: growth of its own memory (RssAnon)", gigabytes), "flat",
			fmt.Sprintf("+ %.1f MiB, %.2f GiB/s", float64(grown)/(1<<20), float64(gigabytes)/took.Seconds()), met(float64(grown), 16<<20))
		return nil
	}
}

func ready(client *http.Client) error {
	for range 200 {
		response, err := client.Get("http://sandboxd/readyz")
		if err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	return fmt.Errorf("the daemon isn't ready after 4 s")
}

func send(client *http.Client, body string) (execd.Reply, error) {
	var reply execd.Reply
	response, err := client.Post("http://sandboxd/v1/exec", "application/json", bytes.NewReader([]byte(body)))
	if err != nil {
		return reply, err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		return reply, err
	}
	return reply, json.Unmarshal(data, &reply)
}

// watch samples what a process has allocated itself until stop is closed, then gives the largest.
func watch(proc string) (chan struct{}, chan int64) {
	stop, most := make(chan struct{}), make(chan int64, 1)
	go func() {
		var largest int64
		for {
			select {
			case <-stop:
				most <- largest
				return
			case <-time.After(20 * time.Millisecond):
				if own, err := statusNumber(proc, "RssAnon:"); err == nil {
					largest = max(largest, own<<10)
				}
			}
		}
	}()
	return stop, most
}
