package sandboxd

import (
	"encoding/json/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/policy"
)

// TestSchemas holds the types to the API's description: each has every field that is there, under its name, and no other.
func TestSchemas(t *testing.T) {
	data, err := os.ReadFile("../../execd/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	type schema struct {
		Properties map[string]any `json:"properties"`
		Enum       []string       `json:"enum"`
		OneOf      []struct {
			Properties map[string]any `json:"properties"`
		} `json:"oneOf"`
	}
	var api struct {
		Components struct {
			Schemas map[string]schema `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(data, &api); err != nil {
		t.Fatal(err)
	}
	types := map[string]reflect.Type{
		"ExecRequest": reflect.TypeFor[ExecRequest](), "RunRequest": reflect.TypeFor[RunRequest](), "Command": reflect.TypeFor[Command](), "Reply": reflect.TypeFor[Reply](),
		"Outputs": reflect.TypeFor[Outputs](), "Output": reflect.TypeFor[Output](), "DeniedCall": reflect.TypeFor[DeniedCall](), "DeniedArg": reflect.TypeFor[DeniedArg](),
		"Truncated": reflect.TypeFor[Streams[bool]](), "Bytes": reflect.TypeFor[Streams[int64]](), "Usage": reflect.TypeFor[Usage](), "Judgment": reflect.TypeFor[Judgment](),
		"Proof": reflect.TypeFor[Proof](), "Event": reflect.TypeFor[Event](), "DecideReply": reflect.TypeFor[DecideReply](), "Status": reflect.TypeFor[Status](),
		"PolicyStatus": reflect.TypeFor[PolicyStatus](), "HostStatus": reflect.TypeFor[HostStatus](), "Mechanism": reflect.TypeFor[Mechanism](),
		"RequestStatus": reflect.TypeFor[RequestStatus](), "SandboxesStatus": reflect.TypeFor[SandboxesStatus](), "InterpretersStatus": reflect.TypeFor[InterpretersStatus](),
		"AuditStatus": reflect.TypeFor[AuditStatus](), "LauncherStatus": reflect.TypeFor[LauncherStatus](), "ProofsStatus": reflect.TypeFor[ProofsStatus](), "Sandbox": reflect.TypeFor[Sandbox](), "FileInfo": reflect.TypeFor[FileInfo](), "FileReply": reflect.TypeFor[FileReply](),
		"Error": reflect.TypeFor[Error](), "VerifyReply": reflect.TypeFor[VerifyReply](), "SandboxProof": reflect.TypeFor[SandboxProof](), "ExecProof": reflect.TypeFor[ExecProof](),
		"PlanProof": reflect.TypeFor[PlanProof](), "NetworkReply": reflect.TypeFor[NetworkReply](), "NetworkRevision": reflect.TypeFor[NetworkRevision](),
		"SecurityContext": reflect.TypeFor[policy.SecurityContext](), "NetworkSpec": reflect.TypeFor[policy.NetworkSpec](), "Limits": reflect.TypeFor[policy.Limits](),
		"Row": reflect.TypeFor[policy.Row](), "Reason": reflect.TypeFor[policy.Reason](), "Evidence": reflect.TypeFor[policy.EvidenceCount](),
	}
	// What a request has in another shape here: stream is another method, timeoutSeconds is in Limits, text on stdin is bytes.
	elsewhere := map[string][]string{"ExecRequest": {"stream"}, "RunRequest": {"stream", "timeoutSeconds"}, "Command": {"stdin"}}
	for name, goType := range types {
		described, ok := api.Components.Schemas[name]
		if !ok {
			t.Errorf("%s isn't described", name)
			continue
		}
		have := fields(goType)
		for key := range described.Properties {
			if !slices.Contains(have, key) && !slices.Contains(elsewhere[name], key) {
				t.Errorf("%s has no field for %q", name, key)
			}
		}
		for _, key := range have {
			if described.Properties[key] == nil {
				t.Errorf("%s.%s isn't described", name, key)
			}
		}
	}
	for _, word := range api.Components.Schemas["Outcome"].Enum {
		if own := []Outcome{OutcomeOK, OutcomeError, OutcomeSignaled}; outcomes[Outcome(word)] == nil && !slices.Contains(own, Outcome(word)) {
			t.Errorf("outcome %q is no error, and no end of a program's own", word)
		}
	}
	codeProperty, _ := api.Components.Schemas["Error"].Properties["code"].(map[string]any)
	known, _ := codeProperty["enum"].([]any)
	for code := range codes {
		if !slices.Contains(known, any(code)) {
			t.Errorf("the API has no code %q", code)
		}
	}
}

// fields are the names in JSON, with those of embedded structs.
func fields(t reflect.Type) (names []string) {
	for i := range t.NumField() {
		field := t.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case field.Anonymous:
			names = append(names, fields(field.Type)...)
		case name != "-" && field.IsExported():
			names = append(names, name)
		}
	}
	return names
}
