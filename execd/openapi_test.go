package execd

import (
	"encoding/json/v2"
	"maps"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sandboxd/sandboxd/enforcer"
	"github.com/sandboxd/sandboxd/execd/audit"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/policy/engine"
	"github.com/sandboxd/sandboxd/runner/file"
)

// schema is as much of a JSON schema as the tests look at.
type schema struct {
	Ref        string            `json:"$ref"`
	Type       any               `json:"type"`
	Const      any               `json:"const"`
	Enum       []string          `json:"enum"`
	Properties map[string]schema `json:"properties"`
	Required   []string          `json:"required"`
	OneOf      []schema          `json:"oneOf"`
	Items      *schema           `json:"items"`
	Closed     any               `json:"additionalProperties"`
	Rest       map[string]any    `json:",embed"`
}

type openAPI struct {
	OpenAPI string `json:"openapi"`
	Paths   map[string]map[string]struct {
		Parameters []struct {
			Name string `json:"name"`
			In   string `json:"in"`
		} `json:"parameters"`
		Responses map[string]any `json:"responses"`
		Rest      map[string]any `json:",embed"`
	} `json:"paths"`
	Components struct {
		Schemas map[string]schema `json:"schemas"`
	} `json:"components"`
	Rest map[string]any `json:",embed"`
}

func readOpenAPI(t *testing.T) openAPI {
	t.Helper()
	data, err := os.ReadFile("openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var api openAPI
	if err := json.Unmarshal(data, &api); err != nil {
		t.Fatal(err)
	}
	return api
}

func testRoutes() []route {
	return (&Service{metrics: &metrics{registry: prometheus.NewRegistry()}}).routes()
}

// TestOpenAPIHasEveryRoute: paths, methods, parameters and statuses, in both directions.
func TestOpenAPIHasEveryRoute(t *testing.T) {
	api := readOpenAPI(t)
	if !strings.HasPrefix(api.OpenAPI, "3.1.") {
		t.Errorf("openapi %s", api.OpenAPI)
	}
	described := 0
	for _, methods := range api.Paths {
		described += len(methods)
	}
	routes := testRoutes()
	if described != len(routes) {
		t.Errorf("%d operations are described, %d are there", described, len(routes))
	}
	for _, r := range routes {
		operation, ok := api.Paths[r.path][strings.ToLower(r.method)]
		if !ok {
			t.Errorf("%s %s isn't described", r.method, r.path)
			continue
		}
		var query []string
		for _, parameter := range operation.Parameters {
			if parameter.In == "query" {
				query = append(query, parameter.Name)
			}
		}
		if !slices.Equal(query, r.query) {
			t.Errorf("%s %s: query %q is described, %q is read", r.method, r.path, query, r.query)
		}
		var have []string
		for _, status := range append(slices.Clone(always), r.answers...) {
			have = append(have, strconv.Itoa(status))
		}
		slices.Sort(have)
		if want := slices.Sorted(maps.Keys(operation.Responses)); !slices.Equal(have, want) {
			t.Errorf("%s %s: statuses %s are described, %s are answered", r.method, r.path, want, have)
		}
	}
}

// TestOpenAPIHasEveryField compares every schema with the Go type that is sent or read as it: names, whether they are always there, and kinds.
func TestOpenAPIHasEveryField(t *testing.T) {
	api := readOpenAPI(t)
	types := map[string]reflect.Type{
		"Reply": reflect.TypeFor[Reply](), "Outputs": reflect.TypeFor[Outputs](), "Output": reflect.TypeFor[Output](), "Truncated": reflect.TypeFor[Truncated](), "Bytes": reflect.TypeFor[Bytes](), "Usage": reflect.TypeFor[Usage](),
		"Judgment": reflect.TypeFor[Judgment](), "Proof": reflect.TypeFor[Proof](), "Evidence": reflect.TypeFor[Evidence](), "Row": reflect.TypeFor[policy.Row](),
		"VerifyRequest": reflect.TypeFor[VerifyRequest](), "VerifyReply": reflect.TypeFor[VerifyReply](), "SandboxProof": reflect.TypeFor[SandboxProof](),
		"ExecProof": reflect.TypeFor[ExecProof](), "PlanProof": reflect.TypeFor[PlanProof](),
		"Reason": reflect.TypeFor[policy.Reason](), "Change": reflect.TypeFor[policy.Change](), "Event": reflect.TypeFor[Event](),
		"DecideReply": reflect.TypeFor[DecideReply](), "Decision": reflect.TypeFor[policy.Decision](), "Effective": reflect.TypeFor[policy.Effective](),
		"SecurityContext": reflect.TypeFor[policy.SecurityContext](), "Capabilities": reflect.TypeFor[policy.Capabilities](),
		"SeccompProfile": reflect.TypeFor[policy.SeccompProfile](), "NetworkSpec": reflect.TypeFor[policy.NetworkSpec](),
		"EgressRule": reflect.TypeFor[policy.EgressRule](), "Limits": reflect.TypeFor[policy.Limits](),
		"BindRequest": reflect.TypeFor[BindRequest](), "Binding": reflect.TypeFor[Binding](),
		"Status": reflect.TypeFor[Status](), "PolicyStatus": reflect.TypeFor[engine.Status](), "HostStatus": reflect.TypeFor[HostStatus](),
		"Mechanism": reflect.TypeFor[enforcer.Mechanism](), "RequestStatus": reflect.TypeFor[RequestStatus](),
		"InterpretersStatus": reflect.TypeFor[InterpretersStatus](),
		"SandboxesStatus":    reflect.TypeFor[SandboxesStatus](), "AuditStatus": reflect.TypeFor[AuditStatus](), "AuditPage": reflect.TypeFor[AuditPage](),
		"LauncherStatus": reflect.TypeFor[LauncherStatus](), "ProofsStatus": reflect.TypeFor[ProofsStatus](),
		"Sandbox": reflect.TypeFor[Sandbox](), "Image": reflect.TypeFor[policy.Image](), "SandboxList": reflect.TypeFor[SandboxList](), "Health": reflect.TypeFor[Health](),
		"File": reflect.TypeFor[policy.File](), "FileInfo": reflect.TypeFor[file.Info](), "FileReply": reflect.TypeFor[FileReply](), "Error": reflect.TypeFor[Error](),
		"NetworkReply": reflect.TypeFor[NetworkReply](), "NetworkRevision": reflect.TypeFor[NetworkRevision](),
		"DeniedCall": reflect.TypeFor[audit.DeniedCall](), "DeniedArg": reflect.TypeFor[audit.DeniedArg](),
	}
	// The bodies of requests have no exported type; TestOpenAPIRequests covers them. Outcome is a word.
	others := []string{"ExecRequest", "RunRequest", "DecideRequest", "Command", "Outcome"}
	for name := range api.Components.Schemas {
		if types[name] == nil && !slices.Contains(others, name) {
			t.Errorf("nobody knows the schema %s", name)
		}
	}
	requests := []string{"SecurityContext", "Capabilities", "SeccompProfile", "NetworkSpec", "EgressRule", "Limits", "File"}
	for name, goType := range types {
		described, ok := api.Components.Schemas[name]
		if !ok {
			t.Errorf("%s isn't described", name)
			continue
		}
		if described.Closed != false {
			t.Errorf("%s may have any field", name)
		}
		compareFields(t, name, described, goType, !slices.Contains(requests, name))
	}
	var words []string
	for _, outcome := range Outcomes {
		words = append(words, string(outcome))
	}
	if got := api.Components.Schemas["Outcome"].Enum; !slices.Equal(got, words) {
		t.Errorf("outcomes %q are described, %q are there", got, words)
	}
	if got := slices.Sorted(slices.Values(api.Components.Schemas["Error"].Properties["code"].Enum)); !slices.Equal(got, slices.Sorted(maps.Keys(statuses))) {
		t.Errorf("codes %q are described, %q are there", got, slices.Sorted(maps.Keys(statuses)))
	}
}

func compareFields(t *testing.T, name string, described schema, goType reflect.Type, required bool) {
	seen := map[string]bool{}
	for i := range goType.NumField() {
		field := goType.Field(i)
		tag := field.Tag.Get("json")
		if !field.IsExported() {
			continue
		}
		key, options, _ := strings.Cut(tag, ",")
		seen[key] = true
		property, ok := described.Properties[key]
		if !ok {
			t.Errorf("%s.%s isn't described", name, key)
			continue
		}
		if always := !strings.Contains(options, "omit"); required && always != slices.Contains(described.Required, key) {
			t.Errorf("%s.%s: always there is %t, described as %t", name, key, always, !always)
		}
		if want, got := kindOf(field.Type), property.Type; want != "" && property.Ref == "" && got != nil && got != want {
			if list, ok := got.([]any); !ok || list[0] != want {
				t.Errorf("%s.%s is %s, described as %v", name, key, want, got)
			}
		}
	}
	for key := range described.Properties {
		if !seen[key] {
			t.Errorf("%s.%s is described and not there", name, key)
		}
	}
}

// kindOf is the JSON type of a Go type; empty where it says nothing.
func kindOf(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return kindOf(t.Elem())
	case reflect.Bool:
		return "boolean"
	case reflect.Int, reflect.Int64:
		return "integer"
	case reflect.Float64:
		return "number"
	case reflect.String:
		return "string"
	case reflect.Map:
		return "object"
	case reflect.Slice:
		switch {
		case t.String() == "jsontext.Value":
			return ""
		case t.Elem().Kind() == reflect.Uint8:
			return "string"
		}
		return "array"
	}
	return ""
}

// samples are a good value for each property of a request, by schema and name.
var samples = map[string]string{
	"command": `{"argv":["true"],"env":{"A":"b"},"cwd":"/tmp","stdin":"x"}`, "resultMarker": "true", "stream": "true", "sandbox": `"00112233445566778899aabbccddeeff"`,
	"securityContext": `{}`, "network": `{}`, "limits": `{}`, "code": `"1"`, "inputs": `{}`, "language": `"python"`, "env": `{}`, "cwd": `"/tmp"`,
	"explainDenials": "true", "file": `{"operation":"read","path":"/work/a"}`, "timeoutSeconds": "1", "outputs": `{"inlineBytes":1}`, "image": `"host"`, "argv": `["true"]`, "stdin": `"x"`, "stdinBase64": `"eA=="`,
	"leaveChildren": "true", "readOnly": "true",
}

// TestOpenAPIRequests: the parser takes each property that is described, refuses one that isn't, and wants those that are required.
func TestOpenAPIRequests(t *testing.T) {
	api := readOpenAPI(t)
	parseExec := func(data []byte) error { _, _, err := policy.ParseExec(data); return err }
	parseRun := func(data []byte) error { _, _, err := policy.ParseRun(data); return err }
	parseDecide := func(data []byte) error { _, err := policy.ParseDecide(data); return err }
	decide := api.Components.Schemas["DecideRequest"].OneOf
	for name, row := range map[string]struct {
		described schema
		parse     func([]byte) error
		base      map[string]string
	}{
		"ExecRequest":        {api.Components.Schemas["ExecRequest"], parseExec, map[string]string{"command": samples["command"]}},
		"RunRequest":         {api.Components.Schemas["RunRequest"], parseRun, map[string]string{"code": `"1"`}},
		"DecideRequest/run":  {decide[1], parseDecide, map[string]string{"action": `"run"`, "code": `"1"`}},
		"DecideRequest/file": {decide[2], parseDecide, map[string]string{"action": `"file"`, "sandbox": `"box"`, "file": samples["file"]}},
		"DecideRequest/exec": {decide[0], parseDecide, map[string]string{
			"action": `"exec"`, "command": samples["command"],
		}},
		"Command": {api.Components.Schemas["Command"], func(data []byte) error {
			return parseExec([]byte(`{"sandbox":"box","command":` + string(data) + `}`))
		}, map[string]string{"argv": `["true"]`}},
	} {
		body := func(change func(map[string]string)) []byte {
			members := maps.Clone(row.base)
			change(members)
			var parts []string
			for _, key := range slices.Sorted(maps.Keys(members)) {
				parts = append(parts, strconv.Quote(key)+":"+members[key])
			}
			return []byte("{" + strings.Join(parts, ",") + "}")
		}
		if err := row.parse(body(func(map[string]string) {})); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for key := range row.described.Properties {
			if key == "action" {
				continue
			}
			if err := row.parse(body(func(m map[string]string) { m[key] = samples[key] })); err != nil {
				t.Errorf("%s.%s is described and refused: %v", name, key, err)
			}
		}
		if err := row.parse(body(func(m map[string]string) { m["unknownField"] = "1" })); err == nil {
			t.Errorf("%s takes any field", name)
		}
		required := slices.Sorted(slices.Values(row.described.Required))
		if name == "Command" { // an image may have a program of its own: without one, argv is required all the same
			required = append(required, "argv")
		}
		if !slices.Equal(required, slices.Sorted(maps.Keys(row.base))) {
			t.Errorf("%s requires %q, described as %q", name, slices.Sorted(maps.Keys(row.base)), required)
		}
		for key := range row.base {
			if err := row.parse(body(func(m map[string]string) { delete(m, key) })); err == nil {
				t.Errorf("%s without %s was taken", name, key)
			}
		}
	}
}
