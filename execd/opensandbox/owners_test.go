package opensandbox

import (
	"fmt"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// tables are all routes that there are, by API. A new table must be here, so that [TestEveryRouteIsItsOwners] covers it.
func tables(t *testing.T) map[string][]route {
	t.Helper()
	f := &Facade{}
	known := map[string][]route{"lifecycle": f.lifecycleRoutes(), "execd": f.execdRoutes(), "egress": f.egressRoutes()}
	kind := reflect.TypeFor[Facade]()
	for i := range kind.NumField() {
		if field := kind.Field(i); field.Type == reflect.TypeFor[[]route]() && known[field.Name] == nil {
			t.Errorf("Facade.%s is a table of routes that this test doesn't know", field.Name)
		}
	}
	return known
}

// owned is what the first owner has: a sandbox in which there is something of each kind that a path or a query can name.
type owned struct {
	box
	egress, egressToken            string
	command, session, isolate, run string
	codeContext, terminal          string
}

func own(t *testing.T, b box) owned {
	t.Helper()
	o := owned{box: b}
	var at struct {
		Endpoint string            `json:"endpoint"`
		Headers  map[string]string `json:"headers"`
	}
	b.s.do("GET", "/v1/sandboxes/"+b.id+"/endpoints/18080", "", headerKey, b.key).must(200).into(&at)
	o.egress, o.egressToken = "http://"+at.Endpoint, at.Headers["OPENSANDBOX-EGRESS-AUTH"]
	o.command = b.run(`{"command":"echo kept >/work/kept; sleep 600","background":true}`)[0].Text
	var made struct {
		Session string `json:"session_id"`
		Run     string `json:"run_id"`
		ID      string `json:"id"`
	}
	b.call("POST", "/session", `{"cwd":"/tmp"}`).must(200).into(&made)
	o.session = made.Session
	b.call("POST", "/v1/isolated/session", `{"workspace":{"path":"/work","mode":"rw"}}`).must(201).into(&made)
	o.isolate = made.Session
	b.call("POST", "/v1/isolated/session/"+o.isolate+"/run", `{"code":"sleep 600","background":true}`).must(202).into(&made)
	o.run = made.Run
	b.call("POST", "/code/context", `{"language":"python"}`).must(200).into(&made)
	o.codeContext = made.ID
	b.call("POST", "/pty", `{}`).must(201).into(&made)
	o.terminal = made.Session
	return o
}

// named fills in the braces of a route with what is the first owner's. The first whose prefix the path has is meant.
func (o owned) named(t *testing.T, r route) string {
	t.Helper()
	part := regexp.MustCompile(`\{(\w+)\}`)
	for {
		at := part.FindStringSubmatchIndex(r.path)
		if at == nil {
			return r.path
		}
		before, name, value := r.path[:at[0]], r.path[at[2]:at[3]], ""
		for _, known := range []struct{ prefix, name, value string }{
			{"/sandboxes/", "id", o.id}, {"/sandboxes/" + o.id + "/endpoints/", "port", "44772"}, {"/sandboxes/" + o.id + "/diagnostics/", "kind", "logs"},
			{"/snapshots/", "id", o.id}, {"/templates/", "id", o.id}, {"/pools/", "id", o.id},
			{"/command/", "id", o.command}, {"/session/", "id", o.session}, {"/v1/filesystem/", "uid", "4711"}, {"/v1/filesystem/", "gid", "4711"},
			{"/v1/isolated/session/" + o.isolate + "/runs/", "run", o.run}, {"/v1/isolated/session/", "id", o.isolate}, {"/code/", "id", o.codeContext}, {"/pty/", "id", o.terminal},
		} {
			if strings.HasPrefix(before, known.prefix) && name == known.name {
				value = known.value
				break
			}
		}
		if value == "" {
			t.Errorf("%s %s: this test doesn't know what {%s} can be of the first owner's: make one in own, and name it here", r.method, r.path, name)
			value = "unknown"
		}
		r.path = before + value + r.path[at[1]:]
	}
}

// now is everything of the first owner's that others could change.
func (o owned) now(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	for _, a := range []answer{
		o.s.do("GET", "/v1/sandboxes/"+o.id, "", headerKey, o.key), o.s.do("GET", o.egress+"/policy", "", headerEgress, o.egressToken),
		o.call("GET", "/command/status/"+o.command, ""), o.call("GET", "/v1/isolated/session/"+o.isolate+"/runs/"+o.run, ""),
		o.call("GET", "/v1/isolated/session/"+o.isolate, ""), o.call("GET", "/directories/list?path=/work&depth=5", ""),
		o.call("GET", "/files/download?path=/work/kept", ""),
		o.call("GET", "/code/contexts/"+o.codeContext, ""), o.call("GET", "/pty/"+o.terminal, ""),
	} {
		fmt.Fprintf(&b, "%d %s\n", a.must(200).status, a.body)
	}
	return b.String()
}

// TestEveryRouteIsItsOwners walks the tables of routes: nobody but its owner reaches what a sandbox has, by whichever of them, whatever else he has of his own.
func TestEveryRouteIsItsOwners(t *testing.T) {
	s := serve(t, "")
	one, two := own(t, s.make(oneKey, "")), own(t, s.make(twoKey, ""))
	for deadline := time.Now().Add(20 * time.Second); one.call("GET", "/files/info?path=/work/kept", "").status != 200; time.Sleep(20 * time.Millisecond) { // polls until it is written
		if time.Now().After(deadline) {
			t.Fatal("the first owner's command has written nothing")
		}
	}
	before := one.now(t)
	secrets := []string{one.token, one.egressToken, oneKey, "kept\n"}
	// closed is an answer that says no, and nothing of the first owner's besides the id that was asked for.
	closed := func(what string, a answer, statuses ...int) {
		t.Helper()
		if !slices.Contains(statuses, a.status) {
			t.Errorf("%s: status %d, want %v: %.300s", what, a.status, statuses, a.body)
		}
		for _, secret := range secrets {
			if strings.Contains(a.body, secret) {
				t.Errorf("%s: the answer tells %q", what, secret)
			}
		}
	}
	routes := tables(t)
	for _, r := range routes["lifecycle"] {
		what, path := r.method+" "+r.path, "/v1"+one.named(t, r)
		closed(what+" without a key", s.do(r.method, path, "{}"), 401)
		closed(what+" with a token for a key", s.do(r.method, path, "{}", headerKey, one.token, headerExecd, one.token, headerEgress, one.egressToken), 401)
		if !strings.Contains(r.path, "{") {
			a := s.do(r.method, path, "{}", headerKey, twoKey)
			closed(what+" of the second", a, 200, 204, 400, 501)
			if strings.Contains(a.body, one.id) {
				t.Errorf("%s: the second is told of the first's sandbox", what)
			}
			continue
		}
		got := s.do(r.method, path, "{}", headerKey, twoKey, headerExecd, two.token, headerEgress, two.egressToken)
		closed(what+" of the first's", got, 404, 501)
		// It is no different from one that isn't there.
		none := newUUID()
		other := s.do(r.method, strings.ReplaceAll(path, one.id, none), "{}", headerKey, twoKey)
		if got.status != other.status || strings.ReplaceAll(got.body, one.id, none) != other.body {
			t.Errorf("%s: %d %s, and %d %s of one that isn't there", what, got.status, got.body, other.status, other.body)
		}
	}
	for _, api := range []struct {
		name, at, own, header, token string
		routes                       []route
	}{
		{"execd", one.execd, two.execd, headerExecd, two.token, routes["execd"]},
		{"egress", one.egress, two.egress, headerEgress, two.egressToken, routes["egress"]},
	} {
		for _, r := range api.routes {
			what, path := api.name+": "+r.method+" "+r.path, one.named(t, r)
			if !strings.Contains(path, "?") {
				id := one.command
				if strings.HasPrefix(path, "/code") {
					id = one.codeContext
				}
				path += "?path=/work/kept&id=" + id
			}
			for name, headers := range map[string][]string{
				"nothing": nil, "his own token": {api.header, api.token}, "his own key": {headerKey, twoKey}, "the owner's own key": {headerKey, oneKey},
				"his key and token": {headerKey, twoKey, api.header, api.token}, "the other API's tokens": {headerExecd, one.egressToken, headerEgress, one.token},
			} {
				closed(what+" with "+name, s.do(r.method, api.at+path, "{}", headers...), 401)
			}
			// At his own endpoint, the names of what the first has are nothing.
			if strings.Contains(r.path, "{") && !strings.Contains(r.path, "{uid}") || slices.Contains([]string{"DELETE /command", "DELETE /code", "POST /code"}, r.method+" "+r.path) {
				body := `{"command":"cat /work/kept","code":"open('/work/kept').read()","context":{"id":"` + one.codeContext + `","language":"python"}}`
				closed(what+" in his own", s.do(r.method, api.own+path, body, api.header, api.token), 400, 404, 503)
			}
		}
	}
	for _, port := range []string{"1", "8080", "18080", "44772", "65535"} {
		at := strings.Replace(one.execd, "/44772", "/"+port, 1)
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"} {
			closed(method+" of port "+port, s.do(method, at+"/", "", headerKey, twoKey, headerExecd, two.token, headerEgress, two.egressToken), 401)
		}
	}
	if after := one.now(t); after != before {
		t.Errorf("something of the first's was changed:\n%s\nbefore:\n%s", after, before)
	}
	// That nothing was opened would say nothing if nothing could be.
	for _, r := range routes["execd"] {
		request, err := http.NewRequest(r.method, one.execd+one.named(t, r)+"?path=/work/kept", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set(headerExecd, one.token)
		response, err := s.client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close() // some have no end
		if response.StatusCode == 401 || response.StatusCode == 405 {
			t.Errorf("%s %s: %d for the owner", r.method, r.path, response.StatusCode)
		}
	}
}

// TestRouteTablesAreAll: a request is answered by the tables, and by nothing beside them but what is named here.
func TestRouteTablesAreAll(t *testing.T) {
	s := serve(t, "")
	s.do("GET", "/health", "").must(200)
	for _, path := range []string{"/", "/v1", "/v1/", "/metrics", "/readyz", "/healthz", "/v1/exec", "/v1/run", "/v1/status", "/v1/audit", "/v1/verify", "/debug/pprof/", "/v1/network", "/v1/code"} {
		s.do("GET", path, "").refused(401)
		s.do("GET", path, "", headerKey, oneKey).refused(404)
	}
	s.do("GET", "/v1/sandboxes/x/y/z", "", headerKey, twoKey).refused(404)
}
