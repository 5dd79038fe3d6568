package datarobot

import (
	"bytes"
	"encoding/json/jsontext"
	json "encoding/json/v2"
	"os/exec"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/execd/datarobot"
)

// The client's own parser, as it answered.
func TestParser(t *testing.T) {
	type parserVector struct {
		ID       string     `json:"id"`
		Input    *string    `json:"input"`
		InputGen *generated `json:"input_gen"`
		Expect   struct {
			HasMarker bool    `json:"has_marker"`
			Stdout    *string `json:"stdout"`
			ValueJSON *string `json:"value_json"`
			Error     *string `json:"error"`
		} `json:"expect"`
	}
	rows := vectors[parserVector](t, "parser_vectors.jsonl")
	if len(rows) != 88 {
		t.Fatalf("%d vectors, want 88", len(rows))
	}
	// The values, as the client would have encoded them again.
	ids, texts := []string{}, []jsontext.Value{}
	want := map[string]string{}
	for _, row := range rows {
		if row.Input == nil {
			row.Input = new(row.InputGen.String())
		}
		clean, value, found, err := datarobot.ParseMarker([]byte(*row.Input))
		if found != row.Expect.HasMarker || (err != nil) != (row.Expect.Error != nil) {
			t.Errorf("%s: found is %t, the error %v; want %t, %v", row.ID, found, err, row.Expect.HasMarker, row.Expect.Error)
		}
		if row.Expect.Stdout != nil && string(clean) != *row.Expect.Stdout {
			t.Errorf("%s: clean is %q, want %q", row.ID, clean, *row.Expect.Stdout)
		}
		if row.Expect.ValueJSON != nil {
			ids, texts = append(ids, row.ID), append(texts, value)
			// The value is JSON, where the client has tokens that aren't.
			want[row.ID] = strings.NewReplacer("-Infinity", "null", "Infinity", "null", "NaN", "null").Replace(*row.Expect.ValueJSON)
		}
	}
	for i, got := range reencode(t, texts) {
		if got = strings.NewReplacer("-Infinity", "null", "Infinity", "null").Replace(got); got != want[ids[i]] {
			t.Errorf("%s: the value is %s, encoded again %s, want %s", ids[i], texts[i], got, want[ids[i]])
		}
	}
}

// reencode has Python decode and encode each text.
func reencode(t *testing.T, texts []jsontext.Value) []string {
	t.Helper()
	list := make([]string, len(texts))
	for i, text := range texts {
		list[i] = string(text)
	}
	data, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("python3", "-I", "-c", "import json, sys; print(json.dumps([json.dumps(json.loads(t)) for t in json.load(sys.stdin)]))")
	cmd.Stdin = bytes.NewReader(data)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("python3: %v", err)
	}
	var again []string
	if err := json.Unmarshal(out, &again); err != nil {
		t.Fatal(err)
	}
	return again
}
