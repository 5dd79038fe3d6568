package agentsandbox

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// config is a ProcessConfig as a client writes it.
func config(command []string, env map[string]string, cwd string) []byte {
	var data []byte
	for _, text := range command {
		data = appendBytes(data, 1, []byte(text))
	}
	for name, value := range env {
		data = appendBytes(data, 2, appendBytes(appendBytes(nil, 1, []byte(name)), 2, []byte(value)))
	}
	return appendBytes(data, 3, []byte(cwd))
}

func TestDecodeStart(t *testing.T) {
	env := map[string]string{"A": "1", "B": ""}
	message := appendBytes(appendBytes(nil, 1, config([]string{"sh", "", "x"}, env, "sub")), 2, appendInt32(appendInt32(nil, 1, 80), 2, 24))
	var got startRequest
	if err := got.decode("StartRequest", message, true); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got.config.command, []string{"sh", "", "x"}) || !maps.Equal(got.config.env, env) || got.config.cwd != "sub" || got.terminal == nil || *got.terminal != (size{80, 24}) {
		t.Errorf("%+v", got)
	}
}

// TestWhatIsNotKnownIsRefused: a field of a later protocol would be one whose effect nobody has here.
func TestWhatIsNotKnownIsRefused(t *testing.T) {
	number := protowire.AppendVarint(protowire.AppendTag(nil, 9, protowire.VarintType), 1)
	for name, test := range map[string]struct {
		decode func([]byte) error
		data   []byte
	}{
		"a terminal for Execute":       {func(d []byte) error { return new(startRequest).decode("ExecuteRequest", d, false) }, appendBytes(nil, 2, nil)},
		"a field of StartRequest":      {func(d []byte) error { return new(startRequest).decode("StartRequest", d, true) }, number},
		"a field of ProcessConfig":     {func(d []byte) error { return new(startRequest).decode("StartRequest", d, true) }, appendBytes(nil, 1, number)},
		"a field of the environment":   {func(d []byte) error { return new(processConfig).decode(d) }, appendBytes(nil, 2, appendBytes(nil, 3, nil))},
		"a field of PTY":               {func(d []byte) error { return new(startRequest).decode("StartRequest", d, true) }, appendBytes(nil, 2, number)},
		"a fixed number":               {func(d []byte) error { return new(processConfig).decode(d) }, protowire.AppendFixed32(protowire.AppendTag(nil, 1, protowire.Fixed32Type), 1)},
		"a field of SendSignalRequest": {func(d []byte) error { return new(processRequest).decode("SendSignalRequest", d) }, appendBytes(nil, 3, nil)},
		"an end of file with content":  {func(d []byte) error { return new(processRequest).decode("WriteStdinRequest", d) }, appendBytes(nil, 3, number)},
	} {
		if err := test.decode(test.data); err == nil || !strings.Contains(err.Error(), "isn't known here") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := new(processRequest).decode("SendSignalRequest", protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 1<<40)); err == nil {
		t.Error("an id beyond its type was taken")
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(appendBytes(nil, 1, config([]string{"a"}, map[string]string{"b": "c"}, "d")))
	f.Add(appendInt32(appendBytes(nil, 3, nil), 1, -1))
	f.Fuzz(func(t *testing.T, data []byte) {
		var start startRequest
		if start.decode("StartRequest", data, true) == nil {
			again := appendBytes(nil, 1, config(start.config.command, start.config.env, start.config.cwd))
			var second startRequest
			if err := second.decode("StartRequest", again, true); err != nil || !slices.Equal(start.config.command, second.config.command) || !maps.Equal(start.config.env, second.config.env) {
				t.Errorf("%x: %+v, again %+v (%v)", data, start, second, err)
			}
		}
		for _, name := range []string{"WriteStdinRequest", "SendSignalRequest", "ResizeTTYRequest"} {
			_ = new(processRequest).decode(name, data)
		}
	})
}
