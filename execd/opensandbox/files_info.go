package opensandbox

import (
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/sandboxd/sandboxd/execd"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/runner/file"
)

// wireFile is a file, directory or link as it is.
type wireFile struct {
	Path       string    `json:"path"`
	Type       string    `json:"type"`
	Size       int64     `json:"size"`
	ModifiedAt time.Time `json:"modified_at"`
	CreatedAt  time.Time `json:"created_at"`
	Owner      string    `json:"owner"`
	Group      string    `json:"group"`
	// Mode are octal digits in a decimal number.
	Mode int64 `json:"mode"`
}

// fileTypes are the kinds that have a word of their own.
var fileTypes = map[string]string{file.KindFile: "file", file.KindDirectory: "directory", file.KindLink: "symlink"}

func wireFileOf(name string, info file.Found) wireFile {
	w := wireFile{
		Path: strings.ToValidUTF8(name, "\uFFFD"), Type: fileTypes[info.Kind], Size: info.Size, ModifiedAt: info.ModifiedAt, CreatedAt: info.CreatedAt,
		Owner: info.Owner, Group: info.Group,
	}
	if w.Type == "" {
		w.Type = "other"
	}
	w.Mode, _ = strconv.ParseInt(info.Mode, 10, 64) // it is our own child's "0644"
	return w
}

// getInfo says what each of the paths is. One that isn't there fails the whole.
func (f *Facade) getInfo(x *exchange, s site) error {
	answer := map[string]wireFile{}
	for _, name := range x.r.URL.Query()["path"] {
		at, err := s.find(name)
		if err != nil {
			return err
		}
		result, err := f.work(x, s, policy.FileStat, execd.FileWork{Order: file.Order{Operation: file.Stat, Path: at}})
		if err != nil {
			return err
		}
		if len(result.Found) != 1 {
			return faultf(http.StatusInternalServerError, execdRuntime, "%.500q: the operation doesn't say what it found", name)
		}
		answer[name] = wireFileOf(path.Clean(at), result.Found[0])
	}
	x.answer(http.StatusOK, answer)
	return nil
}

// entries answers with what an order finds beneath a directory.
func (f *Facade) entries(x *exchange, s site, o file.Order) error {
	var err error
	if o.Path, err = s.find(x.r.URL.Query().Get("path")); err != nil {
		return err
	}
	result, err := f.work(x, s, policy.FileList, execd.FileWork{Order: o})
	switch {
	case err != nil:
		return err
	case result.Truncated:
		return faultf(http.StatusBadRequest, execdFile, "%.500q: there is more than one answer has room for: %d entries; ask about a part", o.Path, len(result.Found))
	}
	answer := make([]wireFile, len(result.Found))
	for i, entry := range result.Found {
		name := entry.Name
		if name == "" {
			name = string(entry.NameBase64)
		}
		answer[i] = wireFileOf(path.Join(o.Path, name), entry)
	}
	x.answer(http.StatusOK, answer)
	return nil
}

// search finds files by their own name in a whole tree.
func (f *Facade) search(x *exchange, s site) error {
	pattern := x.r.URL.Query().Get("pattern")
	if pattern == "" {
		return faultf(http.StatusBadRequest, execdQuery, "pattern: missing")
	}
	return f.entries(x, s, file.Order{Operation: file.Search, Pattern: strings.TrimPrefix(pattern, "**/")})
}
