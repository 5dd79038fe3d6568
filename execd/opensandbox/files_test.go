package opensandbox

import (
	"encoding/json/v2"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/execd"
)

// form is an upload's body, of pairs of metadata and content.
func form(pairs ...string) string {
	var text strings.Builder
	for i := 0; i < len(pairs); i += 2 {
		fmt.Fprintf(&text, "--cut\r\nContent-Disposition: form-data; name=\"metadata\"; filename=\"metadata\"\r\nContent-Type: application/json\r\n\r\n%s\r\n", pairs[i])
		fmt.Fprintf(&text, "--cut\r\nContent-Disposition: form-data; name=\"file\"; filename=\"/etc/elsewhere\"\r\n\r\n%s\r\n", pairs[i+1])
	}
	return text.String() + "--cut--\r\n"
}

func (b box) upload(pairs ...string) answer {
	b.s.t.Helper()
	return b.s.do("POST", b.execd+"/files/upload", form(pairs...), headerExecd, b.token, "Content-Type", "multipart/form-data; boundary=cut")
}

// download gives the content of a file; more are headers.
func (b box) download(query string, more ...string) answer {
	b.s.t.Helper()
	return b.s.do("GET", b.execd+"/files/download?"+query, "", append(more, headerExecd, b.token)...)
}

// info is what a path is; it must be there.
func (b box) info(path string) wireFile {
	b.s.t.Helper()
	var found map[string]wireFile
	b.call("GET", "/files/info?path="+url.QueryEscape(path), "").must(200).into(&found)
	return found[path]
}

// nothing is a success without data.
func (a answer) nothing() {
	a.t.Helper()
	if a.status != 200 || a.body != "" || a.header.Get("Content-Length") != "0" {
		a.t.Errorf("%d %q, want an empty 200 with its length: %v", a.status, a.body, a.header)
	}
}

// TestFiles: the way of a file through every call.
func TestFiles(t *testing.T) {
	s := serve(t, "")
	b := s.make(oneKey, "")
	b.upload(`{"path":"/tmp/in/a","mode":640}`, "0123456789", `{"path":"rel","owner":null,"group":null,"mode":0}`, "one\r\n--cu", `{"path":"~/ home $HOME"}`, "").nothing()
	if got := b.stdout(`cat /tmp/in/a; stat -c ' %a' /tmp/in/a /work/rel "/work/ home \$HOME" && tail -c 4 rel`); !slices.Equal(got, []string{"0123456789 640", " 644", " 644", "--cu"}) {
		t.Errorf("%q", got)
	}
	for _, row := range []struct {
		query, ranges string
		status        int
		body, part    string
	}{
		{"path=/tmp/in/a", "", 200, "0123456789", ""}, {"path=/tmp/in/a", "bytes=2-3", 206, "23", "bytes 2-3/10"}, {"path=/tmp/in/a", "bytes=-2", 206, "89", "bytes 8-9/10"},
		{"path=/tmp/in/a", "bytes=8-99", 206, "89", "bytes 8-9/10"}, {"path=/tmp/in/a", "lines=1-2", 200, "0123456789", ""}, {"path=~/%20home%20$HOME", "bytes=0-99", 200, "", ""},
		{"path=rel&offset=2", "", 200, "--cu", ""}, {"path=rel&limit=1", "", 200, "one\r\n", ""}, {"path=rel&offset=9&limit=1", "", 200, "", ""},
	} {
		var headers []string
		if row.ranges != "" {
			headers = []string{"Range", row.ranges}
		}
		a := b.download(row.query, headers...)
		if a.status != row.status || a.body != row.body || a.header.Get("Content-Range") != row.part || a.header.Get("Content-Length") != fmt.Sprint(len(row.body)) ||
			a.header.Get("Content-Type") != "application/octet-stream" {
			t.Errorf("%+v: %d %q %v", row, a.status, a.body, a.header)
		}
	}
	beyond := b.download("path=/tmp/in/a", "Range", "bytes=10-")
	if beyond.refused(416); beyond.header.Get("Content-Range") != "bytes */10" {
		t.Errorf("%v", beyond.header)
	}
	b.call("POST", "/directories", `{"/tmp/d/e":{"mode":711},"/tmp/in":{"mode":700,"owner":null,"group":null}}`).nothing()
	b.call("POST", "/files/mv", `[{"src":"/tmp/in/a","dest":"/work/new/a"}]`).nothing()
	b.call("POST", "/files/permissions", `{"/work/new/a":{"mode":604},"/tmp/d":{"mode":700}}`).nothing()
	b.call("POST", "/files/replace", `{"new/a":{"old":"3","new":"three"}}`).nothing()
	if a := b.call("POST", "/files/replace?verbose=true", `{"new/a":{"old":"z","new":""}}`); a.status != 200 || a.body != `{"new/a":{"replacedCount":0}}` {
		t.Errorf("%d %s", a.status, a.body)
	}
	if i := b.info("new/a"); i.Path != "/work/new/a" || i.Type != "file" || i.Size != 14 || i.Mode != 604 || i.Owner == "" || i.Group == "" || time.Since(i.CreatedAt) > time.Hour ||
		time.Since(i.ModifiedAt) > time.Hour {
		t.Errorf("%+v", i)
	}
	if d, e, in := b.info("/tmp/d"), b.info("/tmp/d/e"), b.info("/tmp/in"); d.Mode != 700 || e.Mode != 711 || e.Type != "directory" || in.Mode != 755 {
		t.Errorf("%+v %+v %+v", d, e, in)
	}
	b.stdout("ln -s new link; mkfifo new/p; touch new/.h")
	for path, want := range map[string]string{
		"/directories/list?path=/work": " directory:/work/new file:/work/ home $HOME file:/work/rel symlink:/work/link", "/directories/list?path=new&depth=0": "",
		"/directories/list?path=.&depth=2":     " directory:/work/new file:/work/ home $HOME file:/work/new/.h file:/work/new/a file:/work/rel other:/work/new/p symlink:/work/link",
		"/files/search?path=~&pattern=[.a-b]*": " file:/work/new/.h file:/work/new/a", "/files/search?path=/tmp&pattern=none": "",
	} {
		var list []wireFile
		a := b.call("GET", path, "").must(200)
		a.into(&list)
		var got []string
		for _, entry := range list {
			got = append(got, entry.Type+":"+entry.Path)
		}
		slices.Sort(got)
		if text := strings.Join(append([]string{""}, got...), " "); text != want || want == "" && a.body != "[]" {
			t.Errorf("%s:\n%q, want\n%q (%.20s)", path, text, want, a.body)
		}
	}
	b.call("DELETE", "/files?path=link&path=missing", "").nothing()
	b.call("DELETE", "/directories?path=new&path=missing", "").nothing()
	b.call("GET", "/files/info?path=new", "").refused(404)
}

// TestFilesRefused: what a caller can mend is 400 or 404, with a code.
func TestFilesRefused(t *testing.T) {
	s := serve(t, "")
	b := s.make(oneKey, "")
	b.stdout("mkdir d; echo old >f; ln -s l l; ln -s no/where dangling; mkfifo p; ln -s d dl")
	for _, row := range []struct {
		method, path, body string
		status             int
	}{
		{"GET", "/files/download", "", 400}, {"GET", "/files/download?path=no", "", 404}, {"GET", "/files/download?path=d", "", 400}, {"GET", "/files/download?path=p", "", 400},
		{"GET", "/files/download?path=/dev/zero", "", 400}, {"GET", "/files/download?path=l", "", 400}, {"GET", "/files/download?path=dangling", "", 404},
		{"GET", "/files/download?path=/proc/self/root/etc/passwd", "", 400}, {"GET", "/files/download?path=f&offset=-1", "", 400}, {"GET", "/files/download?path=f%00", "", 400},
		{"GET", "/files/info?path=f&path=no", "", 404}, {"GET", "/directories/list?path=f", "", 400}, {"GET", "/directories/list?path=dl", "", 400},
		{"GET", "/directories/list?path=no", "", 404}, {"GET", "/directories/list?path=d&depth=-1", "", 400}, {"GET", "/files/search?path=d", "", 400},
		{"GET", "/files/search?path=d&pattern=[", "", 400}, {"GET", "/files/search?path=no&pattern=*", "", 404}, {"POST", "/directories", `{"f":{"mode":755}}`, 400},
		{"POST", "/directories", `{"x":{"mode":888}}`, 400}, {"POST", "/directories", `[]`, 400}, {"DELETE", "/files?path=d", "", 400}, {"DELETE", "/directories?path=f", "", 400},
		{"DELETE", "/directories?path=/work", "", 400}, {"POST", "/files/mv", `[{"src":"no","dest":"x"}]`, 404}, {"POST", "/files/mv", `[{"src":"f","dest":"d"}]`, 400},
		{"POST", "/files/mv", `[{"src":"/etc/passwd","dest":"stolen"}]`, 400},
		{"POST", "/files/mv", `[{"src":"f"}]`, 400}, {"POST", "/files/permissions", `{"no":{"mode":644}}`, 404}, {"POST", "/files/permissions", `{"f":{"mode":4755}}`, 400},
		{"POST", "/files/permissions", `{"f":{"owner":"nobody-here"}}`, 400}, {"POST", "/files/permissions", `{"f":{"owner":"root"}}`, 400},
		{"POST", "/files/replace", `{"f":{"old":"","new":"x"}}`, 400}, {"POST", "/files/replace", `{"no":{"old":"a","new":"x"}}`, 404},
		{"POST", "/files/upload", "no form", 400}, {"GET", "/v1/filesystem/0/0/files/info?path=/", "", 400}, {"GET", "/v1/filesystem/x/1/files/info?path=/", "", 400},
	} {
		b.call(row.method, row.path, row.body).refused(row.status)
	}
	for _, pairs := range [][]string{
		{}, {`{"path":""}`, "x"}, {`{`, "x"}, {`{"path":"d"}`, "x"}, {`{"path":"f/x"}`, "x"}, {`{"path":"p"}`, "x"}, {`{"path":"/etc/x"}`, "x"}, {`{"path":"dangling"}`, "x"},
		{`{"path":"x","owner":"nobody-here"}`, "x"}, {`{"path":"x","mode":1777}`, "x"}, {`{"path":"` + strings.Repeat("x/", 3000) + `"}`, "x"},
	} {
		b.upload(pairs...).refused(400)
	}
	if got := b.stdout("cat f; ls -A | xargs"); !slices.Equal(got, []string{"old", "d dangling dl f l p"}) {
		t.Errorf("something was done: %q", got)
	}
}

// TestFilesStayInTheSandbox: nothing of this machine is behind any path, whatever a link says; and every operation is decided on and recorded.
func TestFilesStayInTheSandbox(t *testing.T) {
	s := serve(t, "")
	b, other := s.make(oneKey, ""), s.make(twoKey, "")
	keys := filepath.Join(s.state, "keys")
	b.stdout("ln -s " + s.state + " state; ln -s / root; ln -s /proc/1/root one")
	for _, path := range []string{keys, "state/keys", "root" + keys, "one" + keys, "../../.." + keys} {
		a := b.download("path=" + url.QueryEscape(path))
		if a.status != 404 && a.status != 400 || strings.Contains(a.body, oneKey) {
			t.Errorf("%s: %d %.100q", path, a.status, a.body)
		}
	}
	b.upload(`{"path":"`+keys+`"}`, "x") // into the sandbox's own /tmp, if that is where the state is
	b.upload(`{"path":"root`+keys+`"}`, "x")
	b.upload(`{"path":"one`+keys+`"}`, "x").refused(400)
	if text, err := os.ReadFile(keys); err != nil || !strings.Contains(string(text), oneKey) {
		t.Errorf("the keys: %q %v", text, err)
	}
	b.upload(`{"path":"/work/mine"}`, "x").nothing()
	other.call("GET", "/files/info?path=/work/mine", "").refused(404)
	s.do("GET", b.execd+"/files/info?path=/", "", headerExecd, other.token).refused(401)
	s.do("GET", b.execd+"/v1/filesystem/1000/1000/files/info?path=/", "").refused(401)
	record := ""
	for _, path := range glob(t, filepath.Join(s.state, "audit", "*")) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		record += string(text)
	}
	if !strings.Contains(record, `"operation":"write","path":"/work/mine"`) || !strings.Contains(record, `"follow":true`) {
		t.Error("the upload isn't recorded")
	}
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) == 0 {
		t.Fatalf("%s: %v %v", pattern, found, err)
	}
	return found
}

// TestFilesAreForPolicyToAllow: where none may begin, none does.
func TestFilesAreForPolicyToAllow(t *testing.T) {
	s := serveWith(t, "", func(c *execd.Config, _ *Config) {
		path := filepath.Join(c.PolicyDir, "data.json")
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(strings.Replace(string(text), `"followed_roots": ["/"]`, `"followed_roots": ["/tmp"]`, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(filepath.Join(c.PolicyDir, "corpus", "files.json")); err != nil { // it says yes to what isn't allowed here
			t.Fatal(err)
		}
	})
	b := s.make(oneKey, "")
	b.upload(`{"path":"/tmp/a"}`, "x").nothing()
	for _, a := range []answer{
		b.upload(`{"path":"/work/a"}`, "x"), b.upload(`{"path":"/tmp/../work/a"}`, "x"), b.download("path=/etc/passwd"),
		b.call("POST", "/files/mv", `[{"src":"/tmp/a","dest":"/work/a"}]`),
	} {
		if a.refused(400); !strings.Contains(a.body, codeDenied) || !strings.Contains(a.body, "file.path") {
			t.Errorf("%s", a.body)
		}
	}
	if got := b.stdout("ls /work /tmp | xargs"); !slices.Equal(got, []string{"/tmp: a /work:"}) {
		t.Errorf("%q", got)
	}
}

// TestFilesAsSomebody: as another user, and in a session that only reads.
func TestFilesAsSomebody(t *testing.T) {
	s := serve(t, "")
	b := s.make(oneKey, "")
	a := s.do("POST", b.execd+"/v1/filesystem/65534/65533/files/upload", form(`{"path":"/tmp/theirs"}`, "x"), headerExecd, b.token, "Content-Type", "multipart/form-data; boundary=cut")
	a.nothing()
	if got := b.stdout("stat -c %u:%g /tmp/theirs"); !slices.Equal(got, []string{"65534:65533"}) {
		t.Errorf("%q", got)
	}
	b.call("DELETE", "/files?path=/tmp/theirs", "").refused(400) // the directory is sticky
	b.call("DELETE", "/v1/filesystem/65534/65533/files?path=/tmp/theirs", "").nothing()
	b.upload(`{"path":"/work/w/f"}`, "content").nothing()
	for mode, status := range map[string]int{"rw": 200, "ro": 400} {
		var session struct {
			ID string `json:"session_id"`
		}
		b.call("POST", "/v1/isolated/session", `{"workspace":{"path":"/work/w","mode":"`+mode+`"}}`).must(201).into(&session)
		at := "/v1/isolated/session/" + session.ID
		if got := b.call("GET", at+"/files/download?path=f", "").must(200); got.body != "content" {
			t.Errorf("%q", got.body)
		}
		if got := b.call("POST", at+"/directories", `{"`+mode+`":{"mode":755}}`); got.status != status {
			t.Errorf("%s: %d %s", mode, got.status, got.body)
		}
		if got := b.call("POST", at+"/files/permissions", `{"f":{"mode":600}}`); got.status != status {
			t.Errorf("%s: %d %s", mode, got.status, got.body)
		}
		b.call("DELETE", at, "")
		b.call("GET", at+"/files/download?path=f", "").refused(404)
	}
	if got := b.stdout("ls w | xargs"); !slices.Equal(got, []string{"f rw"}) {
		t.Errorf("%q", got)
	}
}

// TestUploadsAreWholeOrNothing: one that is cut, or larger than may be, leaves the old file and nothing beside it.
func TestUploadsAreWholeOrNothing(t *testing.T) {
	s := serveWith(t, "", func(_ *execd.Config, o *Config) { o.FileBytes = 1 << 20 })
	b := s.make(oneKey, "")
	b.upload(`{"path":"/work/f"}`, strings.Repeat("x", 1<<20)).nothing()
	large := b.upload(`{"path":"/work/f"}`, strings.Repeat("y", 3<<20))
	if large.refused(400); !strings.Contains(large.body, execdFile) {
		t.Errorf("%s", large.body)
	}
	cut := strings.TrimSuffix(form(`{"path":"/work/f"}`, strings.Repeat("z", 1000)), "\r\n--cut--\r\n")
	s.do("POST", b.execd+"/files/upload", cut, headerExecd, b.token, "Content-Type", "multipart/form-data; boundary=cut").refused(400)

	at, err := url.Parse(b.execd)
	if err != nil {
		t.Fatal(err)
	}
	connection, err := net.Dial("tcp", at.Host) // a client that goes away in the middle
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(connection, "POST %s/files/upload HTTP/1.1\r\nHost: x\r\n%s: %s\r\nContent-Type: multipart/form-data; boundary=cut\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n",
		at.Path, headerExecd, b.token, len(cut), cut)
	if err := connection.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, connection) // until the server is done with it
	connection.Close()

	if got := b.stdout("ls -A | xargs; head -c 3 f; stat -c ' %s' f"); !slices.Equal(got, []string{"f", "xxx 1048576"}) {
		t.Errorf("%q", got)
	}
}

// TestUploadInterrupt: it ends a read that waits, and where nobody reads it does nothing: net/http would take it for the end of the client, for good.
func TestUploadInterrupt(t *testing.T) {
	whole := make(chan bool, 2)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := &uploadReader{x: &exchange{facade: &Facade{config: Config{BodyTimeout: time.Minute}}, w: &execd.BegunWriter{ResponseWriter: w}, r: r}}
		if r.URL.Path == "/waits" {
			go func() {
				for !body.isReading() {
					runtime.Gosched()
				}
				body.interrupt()
			}()
		}
		_, err := io.Copy(io.Discard, body)
		whole <- err == nil && body.ended && !body.broken
		if r.URL.Path == "/waits" {
			return
		}
		body.interrupt()
		select {
		case <-r.Context().Done():
			t.Error("the client is taken for gone")
		case <-time.After(100 * time.Millisecond):
		}
	}))
	defer s.Close()
	answer, err := s.Client().Post(s.URL+"/", "text/plain", strings.NewReader("all of it"))
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if !<-whole {
		t.Error("a body that came wasn't read whole")
	}
	connection, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	fmt.Fprint(connection, "POST /waits HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n")
	if <-whole {
		t.Error("a body that didn't come was read whole")
	}
}

func (r *uploadReader) isReading() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reading
}

// TestUploadsBesideEachOther: many at once, on connections that go on to be used. None is taken for one whose client has gone away.
func TestUploadsBesideEachOther(t *testing.T) {
	s := serve(t, "")
	b := s.make(oneKey, "")
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			for range 6 {
				path := fmt.Sprintf("/work/%d/f", i%8)
				a := b.upload(`{"path":"`+path+`"}`, "content")
				got := b.download("path=" + path)
				if a.status != 200 || got.status != 200 || got.body != "content" {
					t.Errorf("%d %s; %d %s", a.status, a.body, got.status, got.body)
				}
			}
		})
	}
	all.Wait()
}

// TestListOfMany: more entries than the native API lists, and names that aren't text.
func TestListOfMany(t *testing.T) {
	s := serve(t, "")
	b := s.make(oneKey, "")
	b.stdout(`cd /tmp; mkdir many; cd many; seq -f e%.0f 1 11999 | xargs touch; touch "$(printf 'n\xff')"`)
	var list []struct {
		Path string `json:"path"`
	}
	body := b.call("GET", "/directories/list?path=/tmp/many", "").must(200).body
	if err := json.Unmarshal([]byte(body), &list); err != nil || len(list) != 12000 || list[11999].Path != "/tmp/many/n\uFFFD" {
		t.Errorf("%d entries, %v", len(list), err)
	}
	b.call("DELETE", "/directories?path=/tmp/many", "").nothing()
}
