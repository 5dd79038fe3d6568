package datarobot

import (
	"bufio"
	"bytes"
	json "encoding/json/v2"
	"os"
	"path/filepath"
	"testing"
)

// vectors reads a file of the conformance material: datarobot/NAME beneath SANDBOXD_CONFORMANCE.
func vectors[T any](t *testing.T, name string) []T {
	t.Helper()
	folder := os.Getenv("SANDBOXD_CONFORMANCE")
	if folder == "" {
		t.Skip("SANDBOXD_CONFORMANCE doesn't name the folder of the conformance material")
	}
	data, err := os.ReadFile(filepath.Join(folder, "datarobot", name))
	if err != nil {
		t.Fatal(err)
	}
	rows := []T{}
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var row T
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			t.Fatalf("%s: %v: %.100s", name, err, lines.Bytes())
		}
		rows = append(rows, row)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return rows
}

// generated is a text that a vector describes instead of writing it out.
type generated struct {
	Prefix string `json:"prefix"`
	Char   string `json:"char"`
	Count  int    `json:"count"`
	Suffix string `json:"suffix"`
	Close  string `json:"close"`
}

func (g generated) String() string {
	var text bytes.Buffer
	text.WriteString(g.Prefix)
	for range g.Count {
		text.WriteString(g.Char)
	}
	text.WriteString(g.Suffix)
	for range g.Count {
		text.WriteString(g.Close)
	}
	return text.String()
}
