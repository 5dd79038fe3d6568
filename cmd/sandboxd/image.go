package main

import (
	"context"
	"encoding/json/v2"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/sandboxd/sandboxd/execd"
	"github.com/sandboxd/sandboxd/execd/image"
	"github.com/sandboxd/sandboxd/policy"
)

// images is the flag --image of serve.
type images []execd.NamedImage

func (i *images) String() string { return fmt.Sprint(*i) }

func (i *images) Set(value string) error {
	named, err := execd.ParseNamedImage(value)
	if err != nil {
		return err
	}
	if named.Path != policy.ImageHost && named.Reference == "" {
		if named.Path, err = filepath.Abs(named.Path); err != nil {
			return err
		}
	}
	*i = append(*i, named)
	return nil
}

// imageCommand is what the words of sandboxd image share.
type imageCommand struct {
	program *program
	state   place
	name    string
	tag     string
	json    bool
	verify  bool
	pull    bool
	size    int64
}

// image works on the images of a state directory, whether a daemon runs on it or not: it sees what changes at once.
func (p *program) image(ctx context.Context, flags *flagSet, args []string) (int, error) {
	c := imageCommand{program: p, size: execd.DefaultConfig("/").ImageBytes}
	flags.StringVar(&c.state.state, "state", "", "`directory` of sandboxd's own files (/var/lib/sandboxd as root, else $XDG_STATE_HOME/sandboxd)")
	flags.StringVar(&c.name, "name", "", "import: the `name` that the image gets")
	flags.StringVar(&c.tag, "tag", "", "import: the `tag` of the one that is meant, where there are several")
	flags.Var((*size)(&c.size), "image-bytes", "import: how much the files of one image may have together, in `bytes`")
	flags.BoolVar(&c.pull, "allow-pull", false, "import: PATH is an image of a registry by its digest, registry.example/app@sha256:…, which is asked for it")
	flags.BoolVar(&c.verify, "verify", false, "list: hash all files again; status 1 where they aren't what was unpacked")
	flags.BoolVar(&c.json, "json", false, "print JSON")
	words, err := flags.parseAround(args)
	if err != nil {
		return 0, err
	}
	if len(words) == 0 {
		return 0, errors.New("image: want import, list or remove; see sandboxd help image")
	}
	dir, err := c.state.stateDir(p.getenv)
	if err != nil {
		return 0, err
	}
	limits := image.DefaultLimits()
	limits.Bytes = c.size
	store, err := image.Open(execd.ImagesDir(dir), limits)
	if err != nil {
		return 1, err
	}
	switch rest := words[1:]; words[0] {
	case "import":
		return c.bring(ctx, store, rest)
	case "list":
		return c.list(store, rest)
	case "remove":
		return c.remove(store, rest)
	}
	return 0, fmt.Errorf("image: unknown word %q%s", words[0], hint(words[0], []string{"import", "list", "remove"}, "sandboxd help image"))
}

func (c *imageCommand) bring(ctx context.Context, store *image.Store, words []string) (int, error) {
	if len(words) != 1 || c.name == "" {
		return 0, errors.New("image import: want --name NAME and one PATH: a root directory, an OCI layout or a saved tar")
	}
	if err := policy.CheckImage(c.name); err != nil || c.name == policy.ImageHost {
		return 0, errors.Join(fmt.Errorf("image import --name %s: want the name of an image, such as python:3.12-slim; %q is the host's own", c.name, policy.ImageHost), err)
	}
	made, err := c.take(ctx, store, words[0])
	if err != nil {
		return 1, err
	}
	if c.json {
		return 0, c.print(made)
	}
	fmt.Fprintf(c.program.stdout, "%s %s %d bytes in %d entries\n", c.name, made.Digest, made.Bytes, made.Entries)
	for what, n := range map[string]int{
		"device files, FIFOs and the like are left out": made.Dropped.Devices,
		"files lost their setuid or setgid bit":         made.Dropped.Setuid,
		"files lost extended attributes":                made.Dropped.Attributes,
	} {
		if n > 0 {
			fmt.Fprintf(c.program.stderr, "sandboxd: %d %s\n", n, what)
		}
	}
	return 0, nil
}

// take imports what is at a path, or asks a registry, which must be allowed.
func (c *imageCommand) take(ctx context.Context, store *image.Store, from string) (image.Image, error) {
	if c.pull {
		return store.Pull(ctx, image.Order{Name: c.name, Path: from, Tag: c.tag})
	}
	path, err := filepath.Abs(from)
	if err != nil {
		return image.Image{}, err
	}
	made, err := store.Import(ctx, image.Order{Name: c.name, Path: path, Tag: c.tag})
	if errors.Is(err, fs.ErrNotExist) && image.IsReference(from) {
		err = fmt.Errorf("%w; to ask a registry for it give --allow-pull", err)
	}
	return made, err
}

func (c *imageCommand) list(store *image.Store, words []string) (int, error) {
	if len(words) != 0 {
		return 0, errors.New("image list: takes flags only")
	}
	all, err := store.List()
	if err != nil {
		return 1, err
	}
	var wrong []error
	for _, one := range all {
		if c.verify {
			wrong = append(wrong, store.Verify(one))
		}
		if c.json {
			err = c.print(one)
		} else {
			names := strings.Join(one.Names, ",")
			if names == "" {
				names = "-"
			}
			_, err = fmt.Fprintf(c.program.stdout, "%s %s %d\n", names, one.Digest, one.Bytes)
		}
		if err != nil {
			return 1, err
		}
	}
	if err := errors.Join(wrong...); err != nil {
		return 1, err
	}
	return 0, nil
}

func (c *imageCommand) remove(store *image.Store, words []string) (int, error) {
	if len(words) != 1 {
		return 0, errors.New("image remove: want one NAME, or a digest")
	}
	if _, err := store.Remove(words[0]); err != nil {
		return 1, err
	}
	return 0, nil
}

// listed is an image as --json has it: what is written down, and its names.
type listed struct {
	Names []string `json:"names"`
	image.Image
}

func (c *imageCommand) print(one image.Image) error {
	one.Passwd, one.Group = "", ""
	data, err := json.Marshal(listed{append([]string{}, one.Names...), one})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.program.stdout, "%s\n", data)
	return err
}
