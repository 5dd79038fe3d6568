package engine

import (
	"encoding/json/v2"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/sandboxd/sandboxd/policy"
)

var fenced = regexp.MustCompile("(?ms)^```([a-z]+) ([^\n]+)\n(.*?)^```$")

// The examples of docs/policy.md work: its files make a bundle without flaws, whose tests pass, and its requests are judged as it says.
func TestDocument(t *testing.T) {
	text, err := os.ReadFile("../../docs/policy.md")
	if err != nil {
		t.Fatal(err)
	}
	files, requests := defaultFiles(t), map[string]string{}
	for _, block := range fenced.FindAllStringSubmatch(string(text), -1) {
		language, title, content := block[1], block[2], block[3]
		switch says, isRequest := strings.CutPrefix(title, "request: "); {
		case isRequest:
			requests[says] = content
		case title == "input":
			wantInput(t, content)
		case language == "diff":
			replaceLines(t, files, title, content)
		default:
			files[title] = &fstest.MapFile{Data: []byte(content)}
		}
	}
	if len(requests) != 2 || files["limits/python.rego"] == nil || files["corpus/python.json"] == nil {
		t.Fatalf("%d requests: the examples weren't found", len(requests))
	}
	checked, err := Check(t.Context(), files)
	if err != nil || len(checked.Flaws) > 0 {
		t.Errorf("%v, %v", checked.Flaws, err)
	}
	tested, err := Test(t.Context(), files)
	if err != nil || !tested.Passed() {
		t.Errorf("%v, %v", tested.Missing, err)
	}
	for _, result := range slices.Concat(tested.Tests, tested.Decisions) {
		if !result.Pass {
			t.Errorf("%+v", result)
		}
	}
	e := open(t, Options{FS: files, Tested: true})
	for says, body := range requests {
		explained, err := e.ExplainBody(t.Context(), []byte(body), policy.Caller{UID: 1000, GID: 1000, Via: "cli"})
		if err != nil {
			t.Fatal(err)
		}
		if got := summary(explained); got != says {
			t.Errorf("%s: %s, the document says %s", body, got, says)
		}
	}
}

func summary(x BodyExplanation) string {
	if x.Decision.Allow {
		text := "allow"
		for _, d := range x.Tightened {
			text += fmt.Sprintf(", %s %s becomes %s", d.Field, d.Asked, d.InForce)
		}
		return text
	}
	text := "deny"
	for _, reason := range x.Decision.Reasons {
		text += " " + reason.Rule
	}
	for _, change := range x.Changes {
		text += fmt.Sprintf(", %s %s to %s", change.Op, change.Field, change.Value)
	}
	return text
}

func wantInput(t *testing.T, content string) {
	t.Helper()
	request, err := policy.ParseDecide([]byte(`{"action": "exec", "command": {"argv": ["ls", "-l"], "env": {"HOME": "/work"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	request.Caller = policy.Caller{UID: 1000, GID: 1000, Via: "cli"}
	var got, want any
	real, err := ast.JSON(document(look(request)))
	if err != nil {
		t.Fatal(err)
	}
	data, err := marshal(real)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &want); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(content), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the input that docs/policy.md shows:\n%s", diff)
	}
}

func replaceLines(t *testing.T, files fstest.MapFS, name, diff string) {
	t.Helper()
	var from, to strings.Builder
	for line := range strings.Lines(diff) {
		if line[0] == '-' {
			from.WriteString(line[1:])
		} else {
			to.WriteString(line[1:])
		}
	}
	before := string(files[name].Data)
	after := strings.Replace(before, from.String(), to.String(), 1)
	if after == before {
		t.Fatalf("%s has no %q", name, from.String())
	}
	files[name] = &fstest.MapFile{Data: []byte(after)}
}
