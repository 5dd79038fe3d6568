package execd

import (
	"archive/tar"
	"bytes"
	"encoding/json/v2"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/execd/audit"
	"github.com/sandboxd/sandboxd/policy"
)

// box is a sandbox of a daemon, with its files as a client meets them.
type box struct {
	*daemon
	t  testing.TB
	id string
}

func newBox(t testing.TB, c Config) box {
	t.Helper()
	d := serve(t, c)
	return box{d, t, d.makeSandbox(t).ID}
}

func (b box) file(method, path, body string, header ...string) answer {
	b.t.Helper()
	if body != "" {
		header = append(header, "Content-Type", "application/octet-stream")
	}
	path, rest, _ := strings.Cut(path, "&")
	if rest != "" {
		rest = "&" + rest
	}
	return b.do(b.t, method, "/v1/sandboxes/"+b.id+"/files?path="+url.QueryEscape(path)+rest, body, header...)
}

func (b box) list(path string) answer {
	b.t.Helper()
	return b.do(b.t, "GET", "/v1/sandboxes/"+b.id+"/directories?path="+url.QueryEscape(path), "")
}

// shell runs a line in the sandbox, as the programs do that the file operations share it with.
func (b box) shell(line string) string {
	b.t.Helper()
	text, err := json.Marshal(map[string]any{"sandbox": b.id, "command": map[string]any{"argv": []string{"sh", "-c", line}}})
	if err != nil {
		b.t.Fatal(err)
	}
	reply := b.do(b.t, "POST", "/v1/exec", string(text)).reply(b.t)
	stdout, stderr := reply.Output()
	if reply.Outcome != OutcomeOK {
		b.t.Fatalf("%s: %s %s %s", line, reply.Outcome, reply.Message, stderr)
	}
	return string(stdout)
}

func (a answer) fileReply(t testing.TB) FileReply {
	t.Helper()
	var r FileReply
	if err := json.Unmarshal(a.body, &r, json.RejectUnknownMembers(true)); err != nil {
		t.Fatalf("%d %s: %v", a.status, a.body, err)
	}
	if !r.Verdict.Held || r.Verdict.Evidence.Kernel < 20 || !r.Decision.Allow || r.AuditSequence == 0 || a.header.Get(headerExec) != r.ID ||
		a.header.Get(headerSequence) != strconv.FormatInt(r.AuditSequence, 10) {
		t.Errorf("%s: no proof", a.body)
	}
	return r
}

func (a answer) mustFail(t testing.TB, code, kind string) {
	t.Helper()
	if e := a.failure(t); e.Code != code || e.Kind != kind {
		t.Errorf("%d %s, want %s %s", a.status, a.body, code, kind)
	}
}

func TestFileThereAndBack(t *testing.T) {
	b := newBox(t, testConfig(t))
	content := strings.Repeat("0123456789", 50_000)
	put := b.file("PUT", "data/in put.bin&mode=0640&parents=true", content)
	if r := put.fileReply(t); put.status != 201 || !r.Created || r.Info.Size != 500_000 || r.Info.Mode != "0640" || r.Path != "/work/data/in put.bin" {
		t.Errorf("%d %s", put.status, put.body)
	}
	if got := b.shell("cd data; stat -c '%a %s' *; tail -c 3 in*; id -u; stat -c %u *"); !strings.HasPrefix(got, "640 500000\n789") {
		t.Errorf("a program sees %q", got)
	} else if lines := strings.Fields(got[len("640 500000\n789"):]); len(lines) != 2 || lines[0] != lines[1] {
		t.Errorf("it belongs to %q", lines)
	}
	got := b.file("GET", "/work/data/in put.bin", "")
	if got.status != 200 || string(got.body) != content || got.header.Get("Content-Type") != "application/octet-stream" || got.header.Get(headerMode) != "0640" ||
		got.header.Get(headerExec) == "" || got.header.Get("Accept-Ranges") != "bytes" || got.header.Get("Last-Modified") == "" {
		t.Errorf("%d, %d bytes, %v", got.status, len(got.body), got.header)
	}
	head := b.file("HEAD", "data/in put.bin", "")
	if head.status != 200 || head.header.Get("Content-Length") != "500000" || len(head.body) != 0 || head.header.Get(headerMode) != "0640" {
		t.Errorf("%d %v", head.status, head.header)
	}
	again := b.file("PUT", "data/in put.bin", "new")
	if r := again.fileReply(t); again.status != 200 || r.Created || r.Info.Mode != "0640" {
		t.Errorf("%d %s", again.status, again.body)
	}
	if r := b.file("PATCH", "data/in put.bin&mode=0600", ""); r.status != 200 || r.fileReply(t).Info.Mode != "0600" {
		t.Errorf("%d %s", r.status, r.body)
	}
	b.shell("cd data; ln -s in* link; mkfifo fifo")
	list := b.list("data").fileReply(t)
	var names []string
	for _, entry := range list.Entries {
		names = append(names, entry.Name+" "+entry.Kind)
	}
	if !slices.Equal(names, []string{"fifo FIFO", "in put.bin file", "link symbolic link"}) || list.Truncated {
		t.Errorf("%+v", list)
	}
	if r := b.file("DELETE", "data/in put.bin", ""); r.status != 200 || r.fileReply(t).Info.Size != 3 {
		t.Errorf("%d %s", r.status, r.body)
	}
	b.file("GET", "data/in put.bin", "").mustFail(t, "NOT_FOUND", "")
	b.file("DELETE", "data/in put.bin", "").mustFail(t, "NOT_FOUND", "")
	b.waitFor(t, `sandboxd_file_operations_total{code="OK",operation="write"} 2`)
	b.waitFor(t, `sandboxd_file_bytes_total{operation="read"} 500000`)
}

// F7, F9: refused by policy before anything starts, and recorded as that.
func TestFileDenied(t *testing.T) {
	c := testConfig(t)
	b := newBox(t, c)
	for _, path := range []string{"a/../../etc/x", "/etc/x", "/proc/self/root/etc/passwd", "/work/../etc/passwd", "/dev/zero"} {
		for _, method := range []string{"GET", "PUT", "DELETE"} {
			e := b.file(method, path, map[string]string{"PUT": "x"}[method])
			if f := e.failure(t); f.Code != "DENIED" || len(f.Reasons) != 1 || f.Reasons[0].Rule != "file.path" {
				t.Errorf("%s %s: %d %s", method, path, e.status, e.body)
			}
		}
	}
	b.file("GET", "", "").mustFail(t, "BAD_REQUEST", "")
	b.file("GET", "a\x00b", "").mustFail(t, "BAD_REQUEST", "")
	b.file("GET", strings.Repeat("a/", 2100)+"a", "").mustFail(t, "BAD_REQUEST", "")
	b.file("PUT", "a&mode=4755", "x").mustFail(t, "BAD_REQUEST", "")
	b.file("PUT", "a&mode=rwx", "x").mustFail(t, "BAD_REQUEST", "")
	b.file("PATCH", "a", "").mustFail(t, "BAD_REQUEST", "")
	b.file("GET", "a&mode=0600", "").mustFail(t, "BAD_REQUEST", "")
	other := b
	other.id = strings.Repeat("0", 32)
	other.file("GET", "a", "").mustFail(t, "NOT_FOUND", "")
	denied := recordsOf(t, b.service, audit.TypeDecision)
	if len(denied) != 15 || denied[0].Request.File == nil || denied[0].Request.File.Path != "a/../../etc/x" || denied[0].Decision.Allow || denied[0].Ending.Outcome != "denied" {
		t.Errorf("%d records: %+v", len(denied), denied)
	}
	var decided DecideReply
	dry := b.do(t, "POST", "/v1/decide", `{"action":"file","sandbox":"b","file":{"operation":"read","path":"/etc/shadow"}}`)
	if err := json.Unmarshal(dry.body, &decided); err != nil || decided.Decision.Allow {
		t.Errorf("%s", dry.body)
	}
}

// F8, F10, F11: what a program leaves where a file is wanted.
func TestFileOfAnotherKind(t *testing.T) {
	b := newBox(t, testConfig(t))
	b.shell("mkdir d; mkfifo fifo; ln -s /etc/passwd link; ln -s /proc/self/root root; ln -s /etc etc; ln -s d inner; echo x > d/file; echo x > one; ln one hard")
	began := time.Now()
	for _, row := range []struct{ path, code, kind string }{
		{"d", "NOT_A_FILE", "directory"}, {"/work", "NOT_A_FILE", "directory"}, {"fifo", "NOT_A_FILE", "FIFO"}, {"link", "LINK", "symbolic link"},
		{"root/etc/passwd", "LINK", "symbolic link"}, {"etc/passwd", "LINK", "symbolic link"}, {"inner/file", "LINK", "symbolic link"},
		{"d/file/x", "NOT_A_DIRECTORY", ""}, {strings.Repeat("n", 256), "BAD_NAME", ""},
	} {
		b.file("GET", row.path, "").mustFail(t, row.code, row.kind)
		b.file("PUT", row.path, "x").mustFail(t, row.code, row.kind)
		if head := b.file("HEAD", row.path, ""); head.status != statuses[row.code] || len(head.body) != 0 {
			t.Errorf("HEAD %s: %d", row.path, head.status)
		}
	}
	b.file("PATCH", "hard&mode=0777", "").mustFail(t, "HARD_LINK", "file")
	b.file("PATCH", "link&mode=0777", "").mustFail(t, "LINK", "symbolic link")
	b.file("DELETE", "d", "").mustFail(t, "NOT_A_FILE", "directory")
	b.list("link").mustFail(t, "LINK", "symbolic link")
	b.list("d/file").mustFail(t, "NOT_A_DIRECTORY", "")
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("something hung: %s", took)
	}
	// A hard link of the sandbox's own is read, and a write takes the name alone.
	if got := b.file("GET", "hard", ""); string(got.body) != "x\n" {
		t.Errorf("%d %s", got.status, got.body)
	}
	b.file("PUT", "hard", "y").fileReply(t)
	if got := b.shell("cat one hard"); got != "x\ny" {
		t.Errorf("%q", got)
	}
}

func TestFileRanges(t *testing.T) {
	b := newBox(t, testConfig(t))
	b.shell("printf 0123456789 > f; : > empty")
	for _, row := range []struct {
		path, header, contentRange, body string
		status                           int
	}{
		{"f", "", "", "0123456789", 200}, {"f", "bytes=2-4", "bytes 2-4/10", "234", 206}, {"f", "bytes=8-", "bytes 8-9/10", "89", 206},
		{"f", "bytes=-2", "bytes 8-9/10", "89", 206}, {"f", "bytes=0-99", "bytes 0-9/10", "0123456789", 206}, {"f", "nonsense", "", "0123456789", 200},
		{"empty", "", "", "", 200}, {"empty", "bytes=0-99", "", "", 200}, {"empty", "bytes=-9", "", "", 200},
	} {
		var header []string
		if row.header != "" {
			header = []string{"Range", row.header}
		}
		got := b.file("GET", row.path, "", header...)
		if got.status != row.status || string(got.body) != row.body || got.header.Get("Content-Range") != row.contentRange {
			t.Errorf("%s %q: %d %q %v", row.path, row.header, got.status, got.body, got.header)
		}
	}
	beyond := b.file("GET", "f", "", "Range", "bytes=10-")
	if beyond.mustFail(t, "RANGE", ""); beyond.header.Get("Content-Range") != "bytes */10" {
		t.Errorf("%v", beyond.header)
	}
	if got := b.file("GET", "f", "", "Range", "bytes=0-1", "If-Range", `"x"`); got.status != 200 {
		t.Errorf("%d: what can't be compared is answered whole", got.status)
	}
}

// F13 and the caps, in both directions, with and without a length that is said beforehand.
func TestFileCaps(t *testing.T) {
	c := testConfig(t)
	c.FileBytes = 100_000
	b := newBox(t, c)
	b.shell("head -c 100000 /dev/zero > fits; head -c 100001 /dev/zero > large; echo old > f")
	if got := b.file("GET", "fits", ""); got.status != 200 || len(got.body) != 100_000 {
		t.Errorf("%d", got.status)
	}
	large := b.file("GET", "large", "")
	if large.mustFail(t, "TOO_LARGE", ""); large.failure(t).Size != 100_001 {
		t.Errorf("%s", large.body)
	}
	if got := b.file("GET", "large", "", "Range", "bytes=1-100000"); got.status != 206 || len(got.body) != 100_000 {
		t.Errorf("%d", got.status)
	}
	b.file("PUT", "f", strings.Repeat("x", 100_001)).mustFail(t, "TOO_LARGE", "")
	if got := b.chunked("f", strings.NewReader(strings.Repeat("x", 300_000))); got != 413 {
		t.Errorf("chunked: %d", got)
	}
	if got := b.shell("cat f; ls -A"); got != "old\nf\nfits\nlarge\n" {
		t.Errorf("%q", got)
	}
	if got := b.chunked("f", strings.NewReader("chunks")); got != 200 {
		t.Errorf("chunked: %d", got)
	}
	if got := b.chunked("f", io.MultiReader(strings.NewReader("half of it"), broken{})); got != 0 {
		t.Errorf("a client that breaks off: %d", got)
	}
	for deadline := time.Now().Add(10 * time.Second); len(endings(t, b.service)) < 8 && time.Now().Before(deadline); {
		time.Sleep(5 * time.Millisecond) // polls for the record of what the client didn't wait for
	}
	if got := b.shell("cat f; ls -A"); got != "chunks"+"f\nfits\nlarge\n" {
		t.Errorf("%q", got)
	}
}

// recordsOf are the log's of one type.
func recordsOf(t testing.TB, s *Service, kind audit.Type) []auditRecord {
	t.Helper()
	return slices.DeleteFunc(readLog(t, s.config), func(r auditRecord) bool { return r.Type != kind })
}

// A client that stalls in the middle, in either direction, holds nothing for longer than the bound, and no half file comes of it.
func TestFileStalls(t *testing.T) {
	c := testConfig(t)
	c.BodyTimeout, c.WriteTimeout = 200*time.Millisecond, 200*time.Millisecond
	b := newBox(t, c)
	b.shell("echo old > f; head -c 30000000 /dev/zero > large")
	began := time.Now()
	body, end := io.Pipe()
	go func() { _, _ = end.Write([]byte("half")) }()
	if got := b.chunked("f", body); got != 400 {
		t.Errorf("%d", got)
	}
	end.Close()
	conn, err := net.Dial("unix", b.path)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET /v1/sandboxes/%s/files?path=large HTTP/1.1\r\nHost: sandboxd\r\n\r\n", b.id) // and never reads
	var read []auditRecord
	for len(read) == 0 && time.Since(began) < 10*time.Second {
		time.Sleep(5 * time.Millisecond) // polls for the record of what the client doesn't wait for
		read = slices.DeleteFunc(endings(t, b.service), func(r auditRecord) bool { return r.Ending.Content == nil || r.Ending.Content.Bytes < 1000 })
	}
	if len(read) != 1 || read[0].Ending.Content.Bytes >= 30_000_000 || !read[0].Ending.TreeEmpty {
		t.Errorf("%+v", read)
	}
	if got := b.shell("cat f; ls -A"); got != "old\nf\nlarge\n" {
		t.Errorf("%q", got)
	}
}

// endings are the records of operations and execs that ended.
func endings(t testing.TB, s *Service) []auditRecord {
	return recordsOf(t, s, audit.TypeOutcome)
}

// broken is a body that breaks off.
type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, fmt.Errorf("broken off") }

// chunked puts a body of unknown length, and gives the status or 0.
func (b box) chunked(path string, body io.Reader) int {
	request, err := http.NewRequestWithContext(b.t.Context(), "PUT", "http://sandboxd/v1/sandboxes/"+b.id+"/files?path="+path, io.NopCloser(body))
	if err != nil {
		b.t.Fatal(err)
	}
	response, err := b.Do(request)
	if err != nil {
		return 0
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode
}

// F15: full, without inodes, read-only and not allowed are four different answers, each of which leaves the old file and nothing beside it.
func TestFileSystemsThatTakeNothing(t *testing.T) {
	c := testConfig(t)
	c.WorkBytes = 1 << 20 // and 1024 files
	b := newBox(t, c)
	b.file("PUT", "f", "old")
	b.file("PUT", "f", strings.Repeat("x", 2<<20)).mustFail(t, "NO_SPACE", "")
	if got := b.shell("cat f; ls -A"); got != "old"+"f\n" {
		t.Errorf("%q", got)
	}
	b.shell("mkdir n; (cd n; i=0; while : > $i; do i=$((i+1)); done) 2>/dev/null; true")
	b.file("PUT", "g", "x").mustFail(t, "NO_INODES", "")
	b.shell("rm -r n; mkdir -m 0555 closed; mkdir -m 0 sealed; umask 777; echo > secret")
	b.file("PUT", "closed/f", "x").mustFail(t, "FORBIDDEN", "")
	b.file("GET", "sealed/f", "").mustFail(t, "FORBIDDEN", "")
	b.file("GET", "secret", "").mustFail(t, "FORBIDDEN", "")
	// What was closed by mistake can be opened again.
	if r := b.file("PATCH", "secret&mode=0644", ""); r.status != 200 {
		t.Errorf("%d %s", r.status, r.body)
	}
	if got := b.file("GET", "secret", ""); string(got.body) != "\n" {
		t.Errorf("%d %s", got.status, got.body)
	}
}

// The proof is in the log: what was asked, what held, what was moved.
func TestFileRecords(t *testing.T) {
	b := newBox(t, testConfig(t))
	r := b.file("PUT", "f&mode=0600", "content").fileReply(t)
	got := b.file("GET", "f", "")
	b.file("GET", "nothing", "").mustFail(t, "NOT_FOUND", "")
	releases := recordsOf(t, b.service, audit.TypeRelease)
	if len(releases) != 3 {
		t.Fatalf("%d releases", len(releases))
	}
	wrote := releases[0]
	if wrote.Exec != r.ID || wrote.Sandbox != b.id || wrote.Request.Action != policy.ActionFile || wrote.Request.File.Operation != policy.FileWrite ||
		wrote.Request.File.Path != "f" || *wrote.Request.File.Mode != 0o600 || !wrote.Verdict.Held || wrote.PlanDigest == "" || wrote.Verdict.Digest != r.Verdict.Digest {
		t.Errorf("%+v", wrote)
	}
	ended := endings(t, b.service)
	digest := audit.Digest([]byte("content"))
	for i, want := range []audit.Blob{{Bytes: 7, Digest: digest}, {Bytes: 7, Digest: digest}} {
		if content := ended[i].Ending.Content; content == nil || *content != want || ended[i].Ending.Outcome != "ok" || !ended[i].Ending.TreeEmpty {
			t.Errorf("%+v", ended[i].Ending)
		}
	}
	if ended[1].Exec != got.header.Get(headerExec) || !strings.HasPrefix(ended[2].Message, "NOT_FOUND: ") {
		t.Errorf("%+v %+v", ended[1], ended[2])
	}
}

// F8 with a hostile program in the same sandbox: it swaps a directory with a link that leads to the system's files, and a file with a link, while
// clients read and write. Nothing but what lies in /work is ever read.
func TestFileRaces(t *testing.T) {
	b := newBox(t, testConfig(t))
	b.shell("mkdir d; echo mine > d/passwd; ln -s /etc l; echo mine > f; ln -s /etc/passwd g")
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.do(t, "POST", "/v1/exec", `{"sandbox":"`+b.id+`","command":{"argv":["sh","-c","while test ! -e stop; do mv -T d x; mv -T l d; mv -T d l; mv -T x d; mv -T f y; mv -T g f; mv -T f g; mv -T y f; done"]},"limits":{"timeoutSeconds":30}}`)
	}()
	seen := map[string]int{}
	for i := range 60 {
		path := []string{"d/passwd", "f"}[i%2]
		var got answer
		if i%3 == 0 {
			got = b.file("PUT", path, "mine\n")
		} else {
			got = b.file("GET", path, "")
		}
		if bytes.Contains(got.body, []byte("root:")) {
			t.Fatalf("%s: %s", path, got.body)
		}
		word := strconv.Itoa(got.status)
		if got.status >= 300 {
			word = got.failure(t).Code
		}
		seen[word]++
	}
	b.shell(": > stop")
	<-done
	t.Log(seen)
	for word := range seen {
		if !slices.Contains([]string{"200", "201", "LINK", "NOT_FOUND", "CHANGED"}, word) {
			t.Errorf("%v: %s isn't an answer to a race", seen, word)
		}
	}
	if seen["200"] == 0 {
		t.Errorf("%v: nothing was ever there", seen)
	}
}

// TestNoArchives: unpacking isn't offered, so that no name in an archive is ever a name of ours. What looks like one is bytes.
func TestNoArchives(t *testing.T) {
	b := newBox(t, testConfig(t))
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, header := range []tar.Header{
		{Name: "../../etc/out", Typeflag: tar.TypeReg, Mode: 0o644}, {Name: "/work/absolute", Typeflag: tar.TypeReg, Mode: 0o644},
		{Name: "link", Typeflag: tar.TypeSymlink, Linkname: "/etc"}, {Name: "link/through", Typeflag: tar.TypeReg, Mode: 0o644},
		{Name: "device", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 1},
	} {
		if err := w.WriteHeader(&header); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"application/x-tar", "application/zip", "application/gzip"} {
		if got := b.do(t, "PUT", "/v1/sandboxes/"+b.id+"/files?path=/work/a.tar", archive.String(), "Content-Type", kind); got.status/100 != 2 {
			t.Errorf("%s: %d %s", kind, got.status, got.body)
		}
	}
	for _, query := range []string{"extract=true", "unpack=true", "format=tar"} {
		if got := b.file("PUT", "/work/a.tar&"+query, archive.String()); got.status != 400 {
			t.Errorf("%s: %d %s", query, got.status, got.body)
		}
	}
	if got := b.file("PUT", "/work/a.tar", archive.String()); got.status/100 != 2 {
		t.Fatalf("%d %s", got.status, got.body)
	}
	if got := b.shell("ls -A /work; wc -c < /work/a.tar"); got != fmt.Sprintf("a.tar\n%d\n", archive.Len()) {
		t.Errorf("%q", got)
	}
}
