package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/sandboxd/sandboxd/execd"
)

// defaultOutputs is how many bytes of files --outputs fetches.
const defaultOutputs = 16 << 20

// outputsBody is the field outputs of POST /v1/run.
type outputsBody struct {
	InlineBytes int64 `json:"inlineBytes"`
}

// outputs are the files that a run leaves, on their way into a directory of the caller's.
type outputs struct {
	dir   string
	bytes int64
}

func (o *outputs) register(f *flagSet) {
	f.StringVar(&o.dir, "outputs", "", "`directory` to put the files in that the program leaves in outputs/")
	f.Int64Var(&o.bytes, "outputs-bytes", defaultOutputs, "most `bytes` of such files, together")
}

// body asks for them, nil unless they are wanted.
func (o *outputs) body(f *flagSet) (*outputsBody, error) {
	if o.dir == "" {
		if isSet(f, "outputs-bytes") {
			return nil, errors.New("--outputs-bytes needs --outputs")
		}
		return nil, nil
	}
	return &outputsBody{InlineBytes: o.bytes}, nil
}

// save writes the files and takes their content out of the reply. A program chose the names: nothing is written outside of the directory, whatever links
// are in it, a link in a file's place is replaced and not followed, and no file gets more than the usual permissions.
func (o *outputs) save(p *program, reply *execd.Reply) error {
	if o.dir == "" || reply.Outputs == nil {
		return nil
	}
	if reply.Outputs.Message != "" {
		return errors.New("--outputs: " + reply.Outputs.Message)
	}
	if err := os.MkdirAll(o.dir, 0o777); err != nil {
		return fmt.Errorf("--outputs: %w", err)
	}
	root, err := os.OpenRoot(o.dir)
	if err != nil {
		return fmt.Errorf("--outputs: %w", err)
	}
	defer func() { _ = root.Close() }() // nothing is buffered in it
	for i := range reply.Outputs.Files {
		file := &reply.Outputs.Files[i]
		name := file.Path
		if name == "" {
			name = string(file.PathBase64)
		}
		if file.ContentBase64 == nil && file.Size > 0 {
			p.complain(fmt.Errorf("--outputs: %q is left out: it has %d bytes, and all together may have %d (--outputs-bytes)", name, file.Size, o.bytes))
			continue
		}
		if err := write(root, name, file.ContentBase64); err != nil {
			return fmt.Errorf("--outputs: %w", err)
		}
		file.ContentBase64 = nil
	}
	if reply.Outputs.Truncated {
		p.complain(errors.New("--outputs: there are more files than a reply lists"))
	}
	return nil
}

// write replaces a file, or what else but a directory has its name.
func write(root *os.Root, name string, content []byte) error {
	if !filepath.IsLocal(name) || filepath.Clean(name) != name {
		return fmt.Errorf("%q is no name of a file in there", name)
	}
	if err := root.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		return err
	}
	if info, err := root.Lstat(name); err == nil && info.IsDir() {
		return fmt.Errorf("%q is a directory there", name)
	} else if err == nil {
		if err := root.Remove(name); err != nil {
			return err
		}
	}
	file, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	return errors.Join(err, file.Close())
}
