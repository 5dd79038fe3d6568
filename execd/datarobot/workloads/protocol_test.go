package workloads

import (
	"encoding/base64"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sandboxd/sandboxd/execd"
)

// F1 and F15: each path in each form, without a redirect; and never without the token.
func TestPaths(t *testing.T) {
	s := serve(t, nil)
	id := s.created(payload("_return = 1", nil))
	s.until(id)
	for _, row := range []struct {
		method, path string
		status       int
	}{
		{"GET", "/workloads/ID", 200}, {"GET", "/otel/workload/ID/logs", 200}, {"POST", "/workloads", 400}, {"GET", "/workloads", 405}, {"PUT", "/workloads/ID", 405},
		{"POST", "/otel/workload/ID/logs", 405}, {"GET", "/workloads/none", 404}, {"DELETE", "/workloads/none", 404}, {"GET", "/otel/workload/none/logs", 404},
		{"GET", "/", 404}, {"GET", "/v1/status", 404}, {"POST", "/v1/exec", 404}, {"GET", "//workloads/ID", 404}, {"GET", "/workloads/../workloads/ID", 404},
		{"GET", "/workloads/..%2f..%2fstate", 404}, {"GET", "/otel/workload/..%2fx/logs", 404},
	} {
		for _, prefix := range []string{"", "/api/v2"} {
			for _, slash := range []string{"", "/"} {
				path := prefix + strings.ReplaceAll(row.path, "ID", id) + slash
				if got := s.do(row.method, path, ""); got.status != row.status {
					t.Errorf("%s %s: %d %s, want %d", row.method, path, got.status, got.body, row.status)
				}
				for _, tokens := range [][]string{{}, {"Bearer " + testToken + "x"}, {"Bearer"}, {testToken}, {"Basic " + testToken}, {"Bearer " + testToken, "Bearer " + testToken}, {"Bearer  " + testToken}} {
					if got := s.do(row.method, path, "", tokens...); got.status != 401 || !strings.Contains(got.body, "UNAUTHORIZED") || got.header.Get("WWW-Authenticate") == "" {
						t.Errorf("%s %s with %q: %d %s", row.method, path, tokens, got.status, got.body)
					}
				}
			}
		}
	}
	if got := s.do("DELETE", "/workloads/"+id, "", "Bearer wrong"); got.status != 401 {
		t.Errorf("%d", got.status)
	}
	if got := s.do("GET", "/workloads/"+id, ""); got.status != 200 {
		t.Errorf("a stranger has deleted it: %d", got.status)
	}
}

// F15 to F18: what is no workload, or not one that may run here, is told at once, by a client's fault, with a text. Nothing of it is kept.
func TestRefusedCreates(t *testing.T) {
	s := serve(t, nil)
	whole := payload("_return = 1", nil)
	change := func(old, new string) string {
		t.Helper()
		if !strings.Contains(whole, old) {
			t.Fatalf("no %s in a create request", old)
		}
		return strings.Replace(whole, old, new, 1)
	}
	context := func(text string) string { return payload("_return = 1", func(s *spec) { s.context = text }) }
	variable := func(name, value string) string { return payload("_return = 1", func(s *spec) { s.env[name] = value }) }
	resource := func(text string) string { return payload("_return = 1", func(s *spec) { s.resource = text }) }
	encoded := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	for name, row := range map[string]struct {
		body   string
		status int
		says   string
	}{
		"nothing": {"", 400, ""}, "a list": {"[]", 400, ""}, "null": {"null", 422, "name"}, "no fields": {"{}", 422, "name"}, "not JSON": {"{", 400, ""},
		"two values": {"{} {}", 400, ""}, "not UTF-8": {change("dr-sandbox-0", "\xff"), 400, ""}, "a deep one": {strings.Repeat("[", 100000), 400, ""},
		"an unknown field":      {change(`"name":"default","replicaCount"`, `"name":"default","volumes":[],"replicaCount"`), 400, "volumes"},
		"a field twice":         {change(`"type":"service"`, `"type":"service","type":"service"`), 400, "type"},
		"another case":          {change(`"type"`, `"Type"`), 400, "Type"},
		"another type":          {change(`"type":"service"`, `"type":"batch"`), 422, "artifact.type"},
		"no group":              {`{"name":"x","artifact":{"type":"service","spec":{"containerGroups":[]}},"runtime":{"containerGroups":[]}}`, 422, "containerGroups"},
		"no runtime":            {`{"name":"x","artifact":{"type":"service","spec":{"containerGroups":[{}]}}}`, 422, "runtime"},
		"no container":          {`{"name":"x","artifact":{"type":"service","spec":{"containerGroups":[{}]}},"runtime":{"containerGroups":[{}]}}`, 422, "containers"},
		"a replica more":        {change(`"replicaCount":1`, `"replicaCount":2`), 422, "replicaCount"},
		"another group":         {change(`"name":"default","replicaCount"`, `"name":"other","replicaCount"`), 422, "isn't a group"},
		"another container":     {change(`"name":"sandbox","resourceAllocation"`, `"name":"other","resourceAllocation"`), 422, "isn't a container"},
		"a wrong type":          {change(`"port":8080`, `"port":"8080"`), 400, "port"},
		"an unknown image":      {change(testImage, "team/python:4"), 422, "imageUri"},
		"no image":              {change(testImage, ""), 422, "imageUri"},
		"a pattern's neighbour": {change(testImage, "other/a/b:latest"), 422, "imageUri"},
		"no code":               {payload("x", func(s *spec) { delete(s.env, codeVariable) }), 422, codeVariable},
		"empty code":            {variable(codeVariable, ""), 422, codeVariable},
		"code that isn't":       {variable(codeVariable, "!"), 422, "base64"},
		"code of bytes":         {variable(codeVariable, "/w=="), 422, "UTF-8"},
		"code with a NUL":       {variable(codeVariable, encoded("a\x00")), 422, "code"},
		"inputs that aren't":    {variable(inVariable, encoded("{")), 422, "inputs"},
		"two inputs":            {variable(inVariable, encoded("1 2")), 422, "inputs"},
		"deep inputs":           {variable(inVariable, encoded(strings.Repeat("[", 2000)+strings.Repeat("]", 2000))), 422, "levels"},
		"digits in inputs":      {variable(inVariable, encoded(strings.Repeat("7", 5000))), 422, "digits"},
		"a variable twice":      {change(`"environmentVars":[`, `"environmentVars":[{"name":"A","value":""},{"name":"A","value":""},`), 422, "twice"},
		"an unknown variable":   {variable("DR_SANDBOX_X", "1"), 422, "DR_SANDBOX_X"},
		"a variable by another": {change(`"environmentVars":[`, `"environmentVars":[{"name":"A","valueFrom":{}},`), 400, "valueFrom"},
		"a name with =":         {variable("A=B", "1"), 422, "env"},
		"a loader's variable":   {variable("LD_PRELOAD", "/x"), 403, "LD_PRELOAD"},
		"too long":              {variable(timeVariable, "99999"), 422, "timeoutSeconds"},
		"longer than policy's":  {variable(timeVariable, "4000"), 403, "timeoutSeconds"},
		"too much memory":       {resource(`{"cpu":1,"memory":4294967296}`), 422, "memory"},
		"no memory":             {resource(`{"cpu":1,"memory":0}`), 422, "memory"},
		"too little memory":     {resource(`{"cpu":1,"memory":1}`), 403, "1 bytes"},
		"too many cores":        {resource(`{"cpu":5,"memory":1048576}`), 422, "cpu"},
		"less than no core":     {resource(`{"cpu":-1,"memory":1048576}`), 422, "cpu"},
		"another resource":      {resource(`{"cpu":1,"gpu":1}`), 400, "gpu"},
		"a capability":          {context(`{"capabilities":{"add":["SYS_ADMIN"]}}`), 403, "capabilities"},
		"one with its prefix":   {context(`{"capabilities":{"add":["CAP_NET_RAW"],"drop":["ALL"]}}`), 403, "capabilities"},
		"all of them":           {context(`{"capabilities":{"add":["ALL"]}}`), 403, "capabilities"},
		"one that isn't":        {context(`{"capabilities":{"add":["NOPE"]}}`), 422, "capabilities"},
		"unconfined":            {context(`{"seccompProfile":{"type":"Unconfined"}}`), 403, "seccomp"},
		"a local profile":       {context(`{"seccompProfile":{"type":"Localhost"}}`), 422, "seccomp"},
		"an unknown profile":    {context(`{"seccompProfile":{"type":"runtimeDefault"}}`), 422, "seccomp"},
		"a writable root":       {context(`{"readOnlyRootFilesystem":false}`), 403, "readOnlyRootFilesystem"},
		"escalation":            {context(`{"allowPrivilegeEscalation":true}`), 403, "allowPrivilegeEscalation"},
		"privileged":            {context(`{"privileged":true}`), 400, "privileged"},
		"another user":          {context(`{"runAsUser":0}`), 400, "runAsUser"},
	} {
		got := s.do("POST", "/api/v2/workloads/", row.body)
		if got.status != row.status || !strings.Contains(got.body, row.says) || !strings.Contains(got.body, `"message":"`) {
			t.Errorf("%s: %d %s, want %d with %q", name, got.status, got.body, row.status, row.says)
		}
	}
	if left, err := os.ReadDir(s.facade.store.dir); err != nil || len(left) > 0 {
		t.Errorf("kept: %v, %v", left, err)
	}
	if got := s.do("POST", "/workloads", change(testImage, "other/python:latest")); got.status != 201 {
		t.Errorf("an image that a pattern has: %d %s", got.status, got.body)
	}
}

// The bounds of what is kept are told, and go away with what is deleted.
func TestFull(t *testing.T) {
	for name, edit := range map[string]func(*Config){
		"workloads": func(w *Config) { w.MaxWorkloads = 1 },
		"logs":      func(w *Config) { w.LogBytes = 1 },
	} {
		s := serve(t, func(_ *execd.Config, w *Config) { edit(w) })
		id := s.created(payload("_return = 1", nil))
		s.until(id)
		if got := s.do("POST", "/workloads", payload("_return = 1", nil)); got.status != 429 || got.header.Get("Retry-After") == "" {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
		s.do("DELETE", "/workloads/"+id, "")
		s.created(payload("_return = 1", nil))
		s.stop()
	}
	f := &Facade{config: Config{MaxWorkloads: 9, WaitingBytes: 100, LogBytes: 1}, workloads: map[string]*workload{}}
	if err := f.reserve(&workload{id: "a"}, 60); err != nil {
		t.Error(err)
	}
	if err := f.reserve(&workload{id: "b"}, 60); asFailure(err).Status != 429 {
		t.Error(err)
	}
}

// F4: paging, and what else the SDK asks by.
func TestLogPages(t *testing.T) {
	s := serve(t, nil)
	id := s.created(payload("import sys\nprint('out')\nprint('err', file=sys.stderr)\n_return = 'v'", nil))
	d, _ := s.until(id)
	full := s.logs(id, "")
	if full.Count != 3 || len(full.Data) != 3 || full.Next != nil || full.Previous != nil {
		t.Fatalf("%+v", full)
	}
	var seen []entry
	for page, url := 0, s.base+"/otel/workload/"+id+"/logs?limit=1"; ; page++ {
		part := s.logs(id, "?"+strings.SplitN(url, "?", 2)[1])
		if part.Count != 3 || len(part.Data) != 1 || (part.Previous == nil) != (page == 0) {
			t.Fatalf("page %d: %+v", page, part)
		}
		seen = append(seen, part.Data...)
		if part.Next == nil {
			break
		}
		if url = *part.Next; !strings.HasPrefix(url, s.base+"/") {
			t.Fatalf("next is %s", url)
		}
	}
	if fmt.Sprint(seen) != fmt.Sprint(full.Data) {
		t.Errorf("%v, want %v", seen, full.Data)
	}
	later := d.EndedAt.Add(time.Minute).Format(time.RFC3339Nano)
	for query, want := range map[string]string{
		"?level=error": "err", "?level=INFO": "out err marker", "?level=FATAL": "err", "?includes=ou": "out", "?excludes=ou&includes=r": "err", "?offset=2": "marker",
		"?offset=9": "", "?limit=2": "out err", "?limit=1&offset=1": "err", "?limit=99": "out err marker", "?startTime=" + later: "", "?endTime=" + later: "out err marker",
		"?spanId=1": "", "?traceId=1": "", "?limit=9223372036854775807&offset=1": "err marker",
	} {
		got := []string{}
		for _, e := range s.logs(id, query).Data {
			message := e.Message
			if strings.HasPrefix(message, "__DR_SANDBOX_RESULT__:") {
				message = "marker"
			}
			got = append(got, message)
		}
		if want == "err" && len(got) == 0 || strings.Join(got, " ") != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	for _, query := range []string{"?limit=0", "?limit=x", "?offset=-1", "?level=loud", "?startTime=now", "?endTime=", "?limit=1&limit=2", "?lim=1", "?%zz"} {
		if got := s.do("GET", "/otel/workload/"+id+"/logs/"+query, ""); got.status != 400 {
			t.Errorf("%s: %d %s", query, got.status, got.body)
		}
	}
}
