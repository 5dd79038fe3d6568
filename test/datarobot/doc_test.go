package datarobot

import (
	"os"
	"strings"
	"testing"
)

// Every program that the reference gets wrong is named in docs/datarobot.md.
func TestQuirksAreDocumented(t *testing.T) {
	doc, err := os.ReadFile("../../docs/datarobot.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range runnerVectors(t) {
		if row.Quirk && !strings.Contains(string(doc), "`"+row.ID+"`") {
			t.Errorf("docs/datarobot.md doesn't name %s", row.ID)
		}
	}
}
