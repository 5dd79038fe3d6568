package runner

import (
	"bytes"
	"context"
	"errors"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// streamed is what a reader makes of chunks that are written to its pipe.
func streamed(t testing.TB, limit int64, chunks ...string) (Output, string) {
	t.Helper()
	teed := ""
	r, write, err := newReader("stdout", IO{OutputBytes: limit, Tee: func(_ string, chunk []byte) { teed += string(chunk) }}, nil)
	if err != nil {
		t.Fatal(err)
	}
	go r.run()
	end := os.NewFile(uintptr(write), "end")
	for _, chunk := range chunks {
		end.WriteString(chunk)
	}
	end.Close()
	<-r.done
	return r.finish(false), teed
}

func TestOutputIsCut(t *testing.T) {
	for _, test := range []struct {
		name   string
		limit  int64
		chunks []string
		want   string
	}{
		{"nothing", 10, nil, ""},
		{"within", 10, []string{"one\n", "two"}, "one\ntwo"},
		{"exactly", 3, []string{"one"}, "one"},
		{"beyond", 3, []string{"one\n"}, "one"},
		{"beyond in chunks", 3, []string{"on", "e", "\n"}, "one"},
		{"no room", 0, []string{"one"}, ""},
		{"within a character", 4, []string{"añb€"}, "añb"},
		{"within a character, chunk by chunk", 4, []string{"añb", "\xe2", "\x82", "\xac"}, "añb"},
		{"after a character", 7, []string{"añb€x"}, "añb€"},
		{"whole although cut in chunks", 7, []string{"añb\xe2", "\x82\xac"}, "añb€"},
		{"four bytes", 6, []string{"abc🙂"}, "abc"},
		{"not text", 4, []string{"\xff\xfe\xe2\x82\xac"}, "\xff\xfe\xe2\x82"},
		{"ends within a character by itself", 10, []string{"a\xe2\x82"}, "a\xe2\x82"},
		{"ends within a character at the limit", 3, []string{"a\xe2\x82"}, "a\xe2\x82"},
		{"carriage returns and NUL", 20, []string{"10%\r20%\r\x00\r\n"}, "10%\r20%\r\x00\r\n"},
	} {
		got, teed := streamed(t, test.limit, test.chunks...)
		total := len(strings.Join(test.chunks, ""))
		if string(got.Data) != test.want || got.Total != int64(total) || got.Truncated != (int64(total) > test.limit) || got.Incomplete {
			t.Errorf("%s: %q, %+v, want %q of %d", test.name, got.Data, got, test.want, total)
		}
		if teed != test.want {
			t.Errorf("%s: the tee got %q, want %q", test.name, teed, test.want)
		}
	}
}

// What is kept is a beginning of what was written, and the tee gets just that, however it comes.
func TestOutputIsABeginning(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		chunks := rapid.SliceOfN(rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) })), 0, 5).Draw(r, "chunks")
		limit := rapid.Int64Range(0, 40).Draw(r, "limit")
		whole := strings.Join(chunks, "")
		got, teed := streamed(t, limit, chunks...)
		if !strings.HasPrefix(whole, string(got.Data)) || teed != string(got.Data) || got.Total != int64(len(whole)) {
			r.Fatalf("%q, %+v of %q", teed, got, whole)
		}
		if want := min(limit, int64(len(whole))); int64(len(got.Data)) < want-3 || int64(len(got.Data)) > limit {
			r.Fatalf("%d bytes kept of %d, limit %d", len(got.Data), len(whole), limit)
		}
	})
}

// Memory in use doesn't depend on how much is written.
func TestOutputMemoryIsFlat(t *testing.T) {
	s := startSandbox(t, testConfig(t))
	const size = 2 << 30
	run(t, s, testInvocation("echo warm"), IO{OutputBytes: 1 << 20})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	got := run(t, s, testInvocation("head -c 2147483648 /dev/zero"), IO{OutputBytes: 1 << 20})
	runtime.ReadMemStats(&after)
	t.Logf("%.1f GB/s, %d KiB allocated", float64(size)/1e9/time.Since(start).Seconds(), (after.TotalAlloc-before.TotalAlloc)>>10)
	if got.Stdout.Total != size || len(got.Stdout.Data) != 1<<20 || !got.Stdout.Truncated || got.OutputLimit || got.Status != 0 {
		t.Errorf("total %d, kept %d, %+v", got.Stdout.Total, len(got.Stdout.Data), got.Status)
	}
	if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 8<<20 {
		t.Errorf("%d bytes allocated", allocated)
	}
}

func TestOutputLimitKills(t *testing.T) {
	s := startSandbox(t, testConfig(t))
	got := run(t, s, testInvocation("sleep 1000 & yes"), IO{OutputBytes: 1000, OnLimit: KillTree})
	if !got.OutputLimit || !got.Killed || !got.TreeEmpty || !got.Stdout.Truncated || len(got.Stdout.Data) != 1000 {
		t.Errorf("%+v", got)
	}
	got = run(t, s, testInvocation("head -c 1000 /dev/zero"), IO{OutputBytes: 1000, OnLimit: KillTree})
	if got.OutputLimit || got.Killed || got.Stdout.Truncated || got.Status != 0 {
		t.Errorf("exactly the limit: %+v", got)
	}
}

// Somebody outside of the tree keeps the stream open: the answer comes, and says so.
func TestStreamKeptOpen(t *testing.T) {
	s := startSandbox(t, testConfig(t))
	c := prepared(t, s, testPlan(t, s), testInvocation("echo said; exec sleep 1000"))
	keep, err := unix.PidfdGetfd(c.pidfd, 1, 0)
	if err != nil {
		t.Skip("no pidfd_getfd of the child: ", err)
	}
	defer unix.Close(keep)
	if err := errors.Join(c.Release(), c.Started(context.Background())); err != nil {
		t.Fatal(err)
	}
	time.Sleep(50 * time.Millisecond)
	c.Kill()
	start := time.Now()
	got := c.Wait(context.Background())
	if took := time.Since(start); took > drainBound+time.Second {
		t.Errorf("it took %s", took)
	}
	if !got.Stdout.Incomplete || string(got.Stdout.Data) != "said\n" || got.Stderr.Incomplete {
		t.Errorf("%+v", got)
	}
}

func TestStdin(t *testing.T) {
	s := startSandbox(t, testConfig(t))
	large := bytes.Repeat([]byte("0123456789abcdef"), 256<<10) // more than a pipe takes
	got := run(t, s, testInvocation("cat"), IO{Stdin: large, OutputBytes: 8 << 20})
	if !bytes.Equal(got.Stdout.Data, large) {
		t.Errorf("%d bytes came back of %d", len(got.Stdout.Data), len(large))
	}
	for _, line := range []string{"exit 0", "exec <&-; sleep 0.05", "head -c 3 >/dev/null", "sleep 0.05"} {
		if got := run(t, s, testInvocation(line), IO{Stdin: large}); got.Status != 0 || !got.TreeEmpty {
			t.Errorf("%s: %+v", line, got)
		}
	}
	if got := run(t, s, testInvocation("wc -c; echo x > /dev/stdout; echo y > /dev/stderr"), IO{}); string(got.Stdout.Data) != "0\nx\n" || string(got.Stderr.Data) != "y\n" {
		t.Errorf("%q %q", got.Stdout.Data, got.Stderr.Data)
	}
}

func TestTee(t *testing.T) {
	s := startSandbox(t, testConfig(t))
	var mu sync.Mutex
	teed := map[string]string{}
	first := make(chan struct{})
	var once sync.Once
	c, err := s.Prepare(context.Background(), testPlan(t, s), testInvocation("echo one; sleep 0.2; echo two; echo err >&2"), IO{OutputBytes: 100, Tee: func(stream string, chunk []byte) {
		mu.Lock()
		defer mu.Unlock()
		teed[stream] += string(chunk)
		once.Do(func() { close(first) })
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(c.Release(), c.Started(context.Background())); err != nil {
		t.Fatal(err)
	}
	<-first
	if ended(c.pidfd) {
		t.Error("the tee got nothing before the end")
	}
	c.Wait(context.Background())
	if teed["stdout"] != "one\ntwo\n" || teed["stderr"] != "err\n" {
		t.Errorf("%q", teed)
	}
}
