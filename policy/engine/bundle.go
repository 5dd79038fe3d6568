package engine

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// What a bundle may be at most.
const (
	mostFiles      = 512
	mostFileBytes  = 1 << 20
	mostTotalBytes = 8 << 20
	deepestFolder  = 8
)

// source is a bundle as read: paths with slashes, and contents.
type source struct {
	files map[string][]byte
	// revision is the digest over sorted paths and contents.
	revision string
}

// readBundle reads every file of a bundle. Links are followed, and only regular files and directories may be behind them.
func readBundle(fsys fs.FS) (source, error) {
	return readBundleBut(fsys, func(_ string, err error) error { return err })
}

// readBundleBut goes on where refuse, which is told of each file that a bundle can't have, returns nil.
func readBundleBut(fsys fs.FS, refuse func(name string, err error) error) (source, error) {
	r := reader{fsys: fsys, files: map[string][]byte{}, refuse: refuse}
	if err := r.folder(".", 0); err != nil {
		return source{}, err
	}
	return source{files: r.files, revision: digestFiles(r.files)}, nil
}

// Files is the bundle in a directory as it is now, for [Check], [Test] and [Options]; nothing watches it. Of a ConfigMap it is the generation that
// ..data names.
func Files(dir string) (fs.FS, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("%s: not a directory; a bundle is a directory of rules, data, tests and decisions", dir)
	}
	root, err := generationRoot(dir)
	if err != nil {
		return nil, err
	}
	return os.DirFS(root), nil
}

// readDirectory reads a bundle from a directory. Where Kubernetes has projected a ConfigMap there, all files are read beneath the one target of
// ..data, so that a swap in the middle can't mix two generations.
//
// A directory or file that somebody else may write is an error.
func readDirectory(dir string) (source, error) {
	root, err := generationRoot(dir)
	if err != nil {
		return source{}, err
	}
	if err := (trust{os.Geteuid()}).bundle(dir, root); err != nil {
		return source{}, err
	}
	return readBundle(os.DirFS(root))
}

// generationRoot is the directory that ..data names, or dir itself.
func generationRoot(dir string) (string, error) {
	data := filepath.Join(dir, "..data")
	target, err := os.Readlink(data)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.EINVAL) { // EINVAL: not a link.
		return dir, nil
	}
	if err != nil {
		return "", err
	}
	// The kubelet writes a plain name; anything else is somebody's own construction.
	if target == "." || target == ".." || filepath.Base(target) != target {
		return "", fmt.Errorf("%s: leads to %q, want a directory beside it", data, target)
	}
	return filepath.Join(dir, target), nil
}

// reader reads a bundle, within its bounds.
type reader struct {
	fsys   fs.FS
	files  map[string][]byte
	total  int
	refuse func(name string, err error) error
}

func (r *reader) folder(folder string, depth int) error {
	if depth > deepestFolder {
		return fmt.Errorf("%s: more than %d folders deep", folder, deepestFolder)
	}
	entries, err := fs.ReadDir(r.fsys, folder)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		name := path.Join(folder, entry.Name())
		if ignored(entry.Name()) {
			continue
		}
		info, err := fs.Stat(r.fsys, name)
		if err != nil {
			return err
		}
		if info.IsDir() {
			if err := r.folder(name, depth+1); err != nil {
				return err
			}
			continue
		}
		if err := r.file(name, info.Mode()); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) file(name string, mode fs.FileMode) error {
	if err := checkFile(name, mode); err != nil {
		return r.refuse(name, err)
	}
	content, err := readFile(r.fsys, name)
	if err != nil {
		return r.refuse(name, err)
	}
	r.files[name] = content
	if r.total += len(content); r.total > mostTotalBytes || len(r.files) > mostFiles {
		return fmt.Errorf("a bundle may have at most %d files and %d bytes", mostFiles, mostTotalBytes)
	}
	return nil
}

// ignored names what editors and the kubelet leave beside the files.
func ignored(name string) bool {
	return strings.HasPrefix(name, ".") || strings.HasSuffix(name, "~")
}

// checkFile refuses a file that would not be looked at: a rule in data.yaml or in limits.rego.txt would be missing without a word.
func checkFile(name string, mode fs.FileMode) error {
	if !mode.IsRegular() {
		return fmt.Errorf("%s: not a regular file", name)
	}
	switch {
	case strings.HasSuffix(name, ".rego"), strings.HasSuffix(name, ".md"), path.Base(name) == "data.json", isCorpus(name):
		return nil
	}
	return fmt.Errorf("%s: unknown kind of file; a bundle has *.rego, data.json, corpus/*.json and *.md", name)
}

func isCorpus(name string) bool {
	return path.Dir(name) == "corpus" && strings.HasSuffix(name, ".json")
}

func readFile(fsys fs.FS, name string) ([]byte, error) {
	file, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, mostFileBytes+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(content) > mostFileBytes {
		return nil, fmt.Errorf("%s: more than %d bytes", name, mostFileBytes)
	}
	return content, nil
}

// digestFiles covers names and contents with their lengths, so that no two bundles read alike.
func digestFiles(files map[string][]byte) string {
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	hash := sha256.New()
	for _, name := range names {
		hash.Write(binary.BigEndian.AppendUint64(nil, uint64(len(name))))
		io.WriteString(hash, name)
		hash.Write(binary.BigEndian.AppendUint64(nil, uint64(len(files[name]))))
		hash.Write(files[name])
	}
	return "sha256:" + hex.EncodeToString(hash.Sum(nil))
}
