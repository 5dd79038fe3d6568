package datarobot

import (
	"bytes"
	json "encoding/json/v2"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandboxd/sandboxd/execd/datarobot"
)

// pieces are what random outputs are made of: everything that one parser might take for an end of a line, for a marker or for a value, and another not.
var pieces = []string{
	datarobot.Marker, datarobot.Marker, datarobot.Marker, datarobot.Marker[1:], " " + datarobot.Marker, "\ufeff",
	"\n", "\n", "\n", "\r", "\r\n", "\v", "\f", "\x1c", "\x1d", "\x1e", "\x1f", "\u0085", "\u2028", "\u2029", "\x00", "\u00a0", "\u200b", "\t", " ",
	"text", "é", "\U0001f600", "\uFFFD",
	"1", "-0", "-0.0", "1.0", "1e22", "1E5", "1e999", "01", "+1", ".5", "1.", "NaN", "Infinity", "-Infinity", "-NaN", "nan", "null", "true", "True",
	"[", "]", "{", "}", ",", ":", `"`, `\`, `"a"`, `"a":1`, `"\ud800"`, `"\ud83d\ude00"`, `"\u12"`, `"\x"`, "\"\x01\"", `""`, "[1, 2]", `{"b": 1, "a": [NaN, {"a": 2}]}`,
	strings.Repeat("7", 4300), strings.Repeat("7", 4301), strings.Repeat("[", 2000) + strings.Repeat("]", 2000), strings.Repeat("[", 800) + strings.Repeat("]", 800),
}

// TestParserOracle: on random outputs our parser says what the client's own does.
func TestParserOracle(t *testing.T) {
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Skip(err)
	}
	found, err := filepath.Glob(filepath.Join(cache, "sandboxd/clients/lib/python3*/site-packages/datarobot_genai/drtools/core/sandbox/protocol.py"))
	if err != nil || len(found) != 1 {
		t.Skipf("no client of DataRobot's, which test/clients.sh installs: %v, %v", found, err)
	}
	protocol := found[0]
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	var rows [][]any
	for range 20_000 {
		var text strings.Builder
		for range random.IntN(12) {
			text.WriteString(pieces[random.IntN(len(pieces))])
		}
		clean, value, found, err := datarobot.ParseMarker([]byte(text.String()))
		rows = append(rows, []any{text.String(), string(clean), string(value), found, err != nil})
	}
	input, err := json.Marshal(rows)
	if err != nil {
		t.Fatal(err)
	}
	oracle := exec.CommandContext(t.Context(), "/usr/bin/python3", "-I", "oracle.py", protocol)
	oracle.Stdin = bytes.NewReader(input)
	var stderr bytes.Buffer
	oracle.Stderr = &stderr
	out, err := oracle.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, &stderr)
	}
	if len(out) > 0 {
		t.Errorf("the client's parser differs:\n%.4000s", out)
	}
}
