package execd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/enforcer"
	"github.com/sandboxd/sandboxd/execd/image"
	"github.com/sandboxd/sandboxd/policy"
)

// NamedImage is an image that the configuration names: it is imported when the service starts, unless it is there already. With the path "host" the name
// means the host's own system directories, for clients that always name an image.
type NamedImage struct {
	Name, Path string
	// Reference is that of an image of a registry, by its digest, in place of a path. It needs [Config.AllowPull].
	Reference string
}

// ParseNamedImage reads "python:3.12-slim=/srv/images/python.tar".
func ParseNamedImage(text string) (NamedImage, error) {
	name, path, found := strings.Cut(text, "=")
	if !found || path == "" {
		return NamedImage{}, fmt.Errorf("%q: want NAME=PATH, such as python:3.12-slim=/srv/images/python.tar", text)
	}
	if name == policy.ImageHost {
		return NamedImage{}, fmt.Errorf("%q: %s is the host's own system directories in every case", text, policy.ImageHost)
	}
	if err := policy.CheckImage(name); err != nil {
		return NamedImage{}, err
	}
	if image.IsReference(path) {
		return NamedImage{Name: name, Reference: path}, image.CheckReference(path)
	}
	return NamedImage{Name: name, Path: path}, nil
}

// ImagesDir is where a service with that state directory has its images.
func ImagesDir(state string) string { return filepath.Join(state, "images") }

// images are what sandboxes may be made from besides the host's own directories.
type images struct {
	open func() (*image.Store, error)
	// configured are the digests of those that the configuration names; what is written down in the store under such a name doesn't count.
	configured map[string]string
}

// newImages opens nothing: most services never have one.
func newImages(c Config) *images {
	return &images{configured: map[string]string{}, open: sync.OnceValues(func() (*image.Store, error) {
		return image.Open(ImagesDir(c.StateDir), image.Limits{Bytes: c.ImageBytes, Entries: image.DefaultLimits().Entries})
	})}
}

// importAll imports what the configuration names. One that can't be is an error: a daemon that starts has all of them.
func (i *images) importAll(ctx context.Context, c Config) error {
	for _, named := range c.Images {
		if named.Path == policy.ImageHost {
			i.configured[named.Name] = policy.ImageHost
			continue
		}
		store, err := i.open()
		if err != nil {
			return err
		}
		bring, order := store.Import, image.Order{Name: named.Name, Path: named.Path}
		if named.Reference != "" {
			bring, order.Path = store.Pull, named.Reference
		}
		made, err := bring(ctx, order)
		if err != nil {
			return fmt.Errorf("image %s: %w", named.Name, err)
		}
		i.configured[named.Name] = made.Digest
		c.Logger.Info("image", "name", named.Name, "digest", made.Digest, "bytes", made.Bytes)
	}
	return nil
}

// find is the image that a name means here; nil where there is none.
func (i *images) find(name string) (*image.Image, error) {
	store, err := i.open()
	if err != nil {
		return nil, err
	}
	if digest, there := i.configured[name]; there {
		name = digest
	}
	found, err := store.Find(name)
	if errors.Is(err, image.ErrUnknown) {
		return nil, nil
	}
	return &found, err
}

// HasImage says whether a request may name that image here, as far as policy lets it.
func (s *Service) HasImage(name string) (bool, error) {
	if name == policy.ImageHost || s.images.configured[name] == policy.ImageHost {
		return true, nil
	}
	found, err := s.images.find(name)
	return found != nil, err
}

// withoutOverlay says of a launcher that met a kernel without overlayfs what is missing; any other error stays as it is.
func (r rootSpec) withoutOverlay(err error) error {
	if r.image == nil && r.over == nil || !errors.Is(err, unix.ENODEV) {
		return err
	}
	if r.image == nil {
		return &enforcer.RefusedError{Field: "sandbox.layer", Lack: "overlayfs", Message: "this kernel has no overlayfs, which layers are made by", HowTo: "load it (modprobe overlay)"}
	}
	return &enforcer.RefusedError{Field: "image", Lack: "overlayfs", Message: "this kernel has no overlayfs, which the root of an image is made by",
		HowTo: "load it (modprobe overlay), or leave the image out"}
}

// rootSpec is what the root of a sandbox is made from; the zero value is the host's own system directories.
type rootSpec struct {
	image *image.Image
	// writable keeps what is written to it until the sandbox ends.
	writable bool
	// over is the kept sandbox over whose /work this one's is a layer; nil: it is its own.
	over *sandbox
}

// key is the same for roots that are made alike.
func (r rootSpec) key() string {
	if r.image == nil {
		return ""
	}
	return fmt.Sprintf("%s %t", r.image.Digest, r.writable)
}

// plan is the root as the enforcer builds it.
func (r rootSpec) plan(bytes int64, giveAway bool) *enforcer.ImageRoot {
	if r.image == nil {
		return nil
	}
	return &enforcer.ImageRoot{Directory: r.image.Directory, Digest: r.image.Digest, Top: r.image.Top, Writable: r.writable, Bytes: bytes, GiveAway: giveAway,
		Passwd: r.image.Passwd, Group: r.image.Group}
}

// rootOf is the root that a decision about an image asks for.
func rootOf(found *image.Image, d policy.Decision) rootSpec {
	readOnly := d.Effective.SecurityContext.ReadOnlyRootFilesystem
	return rootSpec{image: found, writable: found != nil && readOnly != nil && !*readOnly}
}

// withImage says what a request's image is here, before policy judges it: its digest, and what it says of its own use, wherever the request says nothing. A
// name that means nothing here has no digest, which is for policy to refuse. A request for a sandbox that exists has that one's image.
func (s *Service) withImage(r policy.Request) (policy.Request, *image.Image, error) {
	r.Image.Digest = ""
	var found *image.Image
	switch {
	case r.Sandbox != "":
		r.Image = policy.Image{}
		box, err := s.sandboxes.find(r.Sandbox, r.Caller)
		if err != nil || box.root.image == nil {
			return r, nil, nil // build says what is wrong, after policy has spoken
		}
		found, r.Image = box.root.image, policy.Image{Name: box.imageName, Digest: box.root.image.Digest}
	case r.Image.Name == "" || r.Image.Name == policy.ImageHost:
		r.Image = policy.Image{}
		return r, nil, nil
	case s.images.configured[r.Image.Name] == policy.ImageHost:
		r.Image = policy.Image{}
		return r, nil, nil
	default:
		var err error
		if found, err = s.images.find(r.Image.Name); err != nil || found == nil {
			return r, nil, err
		}
		r.Image.Digest = found.Digest
	}
	return s.defaultsOf(r, found), found, nil
}

// findImage is [Service.withImage] for a walk. What an image says of its own use must be what a request may say.
func (w *walk) findImage() (err error) {
	if w.ahead != nil {
		return nil
	}
	if w.request, w.image, err = w.service.withImage(w.request); err != nil || w.image == nil || w.request.Action == policy.ActionFile {
		return err
	}
	if len(w.request.Command.Argv) == 0 && w.request.Action == policy.ActionExec {
		return &deniedError{[]policy.Reason{{Rule: "host.image", Field: "command.argv", Message: "No command was given, and the image has none of its own."}}}
	}
	if err := w.request.Validate(); err != nil {
		return &deniedError{[]policy.Reason{{Rule: "host.image", Field: "image", Message: "With what the image says of its use this is no request: " + err.Error()}}}
	}
	return nil
}

// defaultsOf fills in what an image says of its own use. Its user counts where children can have one: an ordinary user's sandbox has one id. A writable
// root is asked for with each exec, of what the sandbox was made with.
func (s *Service) defaultsOf(r policy.Request, found *image.Image) policy.Request {
	said := found.Invocation
	env := func(asked map[string]string) map[string]string {
		merged := map[string]string{}
		for _, entry := range said.Env {
			if name, value, ok := strings.Cut(entry, "="); ok {
				merged[name] = value
			}
		}
		maps.Copy(merged, asked)
		return merged
	}
	cwd := func(asked string) string {
		if asked == "" && said.WorkingDir != "" && said.WorkingDir != "/" {
			return filepath.Clean(said.WorkingDir)
		}
		return asked
	}
	switch r.Action {
	case policy.ActionExec:
		r.Command.Env, r.Command.Cwd = env(r.Command.Env), cwd(r.Command.Cwd)
		if r.Command.Argv == nil {
			r.Command.Argv = slices.Concat(said.Entrypoint, said.Cmd)
		}
	case policy.ActionRun:
		r.Program.Env, r.Program.Cwd = env(r.Program.Env), cwd(r.Program.Cwd)
	default:
		return r
	}
	if s.host.UID == 0 && r.SecurityContext.RunAsUser == nil && found.UID != nil {
		r.SecurityContext.RunAsUser = found.UID
		if r.SecurityContext.RunAsGroup == nil {
			r.SecurityContext.RunAsGroup = found.GID
		}
	}
	return r
}

// imageRow says which image the kernel has a sandbox's root made from, as it was read back when that was made and whenever it is looked at again.
func imageRow(box *sandbox) policy.Row {
	row := policy.Row{Control: "sandbox.image", Want: box.root.image.Digest, Got: "not mounted", Evidence: policy.EvidenceKernel}
	for _, m := range box.State().Mounts {
		if m.Target != "/" || m.Type != "overlay" {
			continue
		}
		for _, option := range m.SuperOptions {
			if lower, is := strings.CutPrefix(option, "lowerdir="); is {
				got, err := image.DigestOf(lower)
				if err != nil {
					got = lower
				}
				row.Got = got
			}
		}
	}
	row.Held = row.Want == row.Got
	return row
}
