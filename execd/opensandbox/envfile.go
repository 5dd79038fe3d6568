package opensandbox

import (
	"context"
	"errors"
	"path"
	"strings"
	"sync"

	"github.com/sandboxd/sandboxd/execd"
)

// mostEnvFile bounds the file of persisted variables; of a longer one nothing counts.
const mostEnvFile = 256 << 10

// persisted are the variables that a sandbox's programs have appended to the file that EXECD_ENVS names.
type persisted struct {
	mu sync.Mutex // guards what follows, and is held while the file is read
	// stamp is of the file when it was read; known says that it was.
	stamp string
	known bool
	env   map[string]string
}

// variables are those that are persisted now. The file is read only when it isn't what it was. One that can't be read has nothing in it: it is the sandbox's
// own, and a directory in its place is its own doing.
func (f *Facade) variables(ctx context.Context, box *sandbox) map[string]string {
	p := &box.persisted
	p.mu.Lock()
	defer p.mu.Unlock()
	stamp, err := f.service.WorkStamp(box.inner, box.caller, path.Base(envsFile))
	if err == nil && p.known && p.stamp == stamp {
		return p.env
	}
	if err == nil && stamp == "" {
		p.known, p.stamp, p.env = true, "", nil
		return nil
	}
	data, failed := f.service.ReadFile(ctx, box.inner, box.caller, envsFile, mostEnvFile)
	var known *execd.Error
	if failed != nil && !errors.As(failed, &known) {
		f.config.Logger.Warn("opensandbox: persisted variables aren't read", "sandbox", box.id, "error", failed)
	}
	p.stamp, p.known, p.env = stamp, err == nil, parseEnvFile(data)
	return p.env
}

// parseEnvFile reads NAME='value' and NAME="value with escapes" entries; the last of a name counts. What isn't one of them, up to the end of its line, is left
// out, and so is a name that would load code: the file is written by whoever runs in the sandbox.
func parseEnvFile(data []byte) map[string]string {
	env := map[string]string{}
	text := string(data)
	for text != "" {
		name, rest, found := strings.Cut(text, "=")
		if !found {
			break
		}
		if strings.Contains(name, "\n") { // a line without an entry
			_, text, _ = strings.Cut(text, "\n")
			continue
		}
		name = strings.TrimPrefix(strings.TrimSpace(name), "export ")
		value, rest, ok := envValue(rest)
		if ok && isName(name) && !reservedName(name) && !strings.Contains(value, "\x00") {
			env[name] = value
		}
		_, text, _ = strings.Cut(rest, "\n")
	}
	return env
}

// envValue reads a value, and gives what is behind it.
func envValue(text string) (value, rest string, ok bool) {
	if text == "" {
		return "", "", true
	}
	switch text[0] {
	case '\'':
		return strings.Cut(text[1:], "'")
	case '"':
		return unescaped(text[1:])
	}
	end := strings.IndexByte(text, '\n')
	if end < 0 {
		end = len(text)
	}
	return strings.TrimSpace(text[:end]), text[end:], true
}

var escapes = map[byte]byte{'\\': '\\', '"': '"', 'n': '\n', 'r': '\r', 't': '\t'}

// unescaped reads up to the closing quote.
func unescaped(text string) (value, rest string, ok bool) {
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			return out.String(), text[i+1:], true
		case c == '\\' && i+1 < len(text) && escapes[text[i+1]] != 0:
			i++
			out.WriteByte(escapes[text[i]])
		default:
			out.WriteByte(c)
		}
	}
	return "", "", false
}

// isName says whether a shell could have a variable of that name.
func isName(name string) bool {
	for i, r := range name {
		if r != '_' && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return name != "" && len(name) <= 256
}

// reservedName says whether a variable is nobody's to persist: the loader's, and the one that names the file.
func reservedName(name string) bool {
	return strings.HasPrefix(name, "LD_") || strings.HasPrefix(name, "BASH_FUNC_") || name == "BASH_ENV" || name == "ENV" || name == envsVariable ||
		strings.HasPrefix(name, "EXECD_") || strings.HasPrefix(name, "OPENSANDBOX_") || strings.HasPrefix(name, "OPEN_SANDBOX_")
}
