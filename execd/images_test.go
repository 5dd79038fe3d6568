package execd

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json/v2"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandboxd/sandboxd/enforcer"
	"github.com/sandboxd/sandboxd/execd/audit"
	"github.com/sandboxd/sandboxd/execd/image"
	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/runner"
)

// smallRoot is a root with a few of the host's own programs and what they are linked with, and nothing else. /srv is everybody's to write to.
func smallRoot(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	copied := func(from, to string) {
		data, err := os.ReadFile(from)
		if err == nil {
			err = errors.Join(os.MkdirAll(filepath.Dir(dir+to), 0o755), os.WriteFile(dir+to, data, 0o755))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"sh", "cat", "ls", "mkdir", "rm", "dd", "id", "env", "sleep", "stat", "touch", "mv"} {
		path, err := exec.LookPath(name)
		if err == nil {
			path, err = filepath.EvalSymlinks(path)
		}
		if err != nil {
			t.Fatal(err)
		}
		copied(path, "/bin/"+name)
		out, err := exec.Command("ldd", path).Output()
		if err != nil {
			t.Fatalf("ldd %s: %v", path, err)
		}
		for _, library := range regexp.MustCompile(`(?m)(/\S+) \(0x`).FindAllStringSubmatch(string(out), -1) {
			copied(library[1], library[1])
		}
	}
	for name, body := range map[string]string{"/etc/passwd": "root:x:0:0::/:/bin/sh\napp:x:4321:4322::/srv:/bin/sh\n", "/srv/lower": "the image's", "/etc/resolv.conf": "nameserver 192.0.2.1"} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(dir+name), 0o755), os.WriteFile(dir+name, []byte(body), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Chmod(dir+"/srv", 0o777), os.Chmod(dir+"/srv/lower", 0o666), os.Symlink("../../..", dir+"/tmp")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// startImages is a service with an image of the name "small", and what was imported.
func startImages(t testing.TB, path string, change func(*Config)) (*Service, image.Image) {
	t.Helper()
	c := testConfig(t)
	c.Images, c.RootBytes = []NamedImage{{Name: "small", Path: path}}, 1<<20
	if change != nil {
		change(&c)
	}
	s := start(t, c)
	found, err := s.images.find("small")
	if err != nil || found == nil {
		t.Fatal(found, err)
	}
	return s, *found
}

func inImage(script string, writable bool) policy.Request {
	r := shell(script)
	r.Image.Name = "small"
	if writable {
		r.SecurityContext.ReadOnlyRootFilesystem = new(false)
	}
	return r
}

// stdoutOf runs a request that must end well, and gives what it wrote.
func stdoutOf(t testing.TB, s *Service, r policy.Request) string {
	t.Helper()
	reply := s.Exec(t.Context(), r, Options{Rows: true})
	stdout, stderr := reply.Output()
	if reply.Outcome != OutcomeOK {
		t.Fatalf("%s: %s %v, status %d\n%s%s", r.Command.Argv, reply.Outcome, reply.Reasons, reply.ExitStatus(), stdout, stderr)
	}
	return string(stdout)
}

// TestImage: the root is the image's and nothing of the host's; what is ours is on top; verdict and record say which image it is.
func TestImage(t *testing.T) {
	s, made := startImages(t, smallRoot(t), nil)
	got := stdoutOf(t, s, inImage(`cd /; ls -d usr/share etc/ssl home 2>/dev/null; cat srv/lower; echo; cat etc/passwd; cat etc/resolv.conf; ls -A tmp work; id -u`, false))
	for _, want := range []string{"the image's\nsandbox:x:", "\napp:x:4321:4322::/srv:/bin/sh\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q has no %q", got, want)
		}
	}
	if strings.Contains(got, "192.0.2.1") || strings.Contains(got, "share") {
		t.Errorf("%q", got)
	}
	reply := s.Exec(t.Context(), inImage("true", false), Options{Rows: true})
	i := slices.IndexFunc(reply.Verdict.Rows, func(row policy.Row) bool { return row.Control == "sandbox.image" })
	if i < 0 || reply.Verdict.Rows[i].Got != made.Digest || !reply.Verdict.Rows[i].Held || reply.Verdict.Rows[i].Evidence != policy.EvidenceKernel {
		t.Errorf("verdict %+v, want the image %s in it", reply.Verdict.Rows, made.Digest)
	}
	for _, record := range recordsOf(t, s, audit.TypeRelease) {
		if record.Request.Image == nil || *record.Request.Image != (policy.Image{Name: "small", Digest: made.Digest}) {
			t.Errorf("record %+v", record.Request)
		}
	}
}

// TestImageIsNotHere is refused, with what would bring it.
func TestImageIsNotHere(t *testing.T) {
	s := start(t, testConfig(t))
	reply := s.Exec(t.Context(), inImage("true", false), Options{})
	if reply.Outcome != OutcomeDenied || len(reply.Reasons) != 1 || reply.Reasons[0].Rule != "image.known" ||
		!strings.Contains(reply.Reasons[0].Message, "sandboxd image import --name small PATH") {
		t.Errorf("%s %+v", reply.Outcome, reply.Reasons)
	}
	host := inImage("ls /usr/bin", false)
	host.Image.Name = policy.ImageHost
	if stdoutOf(t, s, host) == "" {
		t.Error("the host's own has no programs")
	}
	for name, want := range map[string]bool{"small": false, policy.ImageHost: true} {
		if has, err := s.HasImage(name); err != nil || has != want {
			t.Errorf("%s: %t, %v", name, has, err)
		}
	}
	_, err := s.MakeSandbox(t.Context(), policy.Request{Action: policy.ActionSandbox, Caller: Self(), Image: policy.Image{Name: "small"}})
	var e *Error
	if !errors.As(err, &e) || e.Code != "DENIED" || len(e.Reasons) != 1 || e.Reasons[0].Rule != "image.known" {
		t.Errorf("%v", err)
	}
}

// TestImageReadOnly: without being asked for, nothing of the root can be written; in a sandbox whose root can, an exec that doesn't say so can't either.
func TestImageReadOnly(t *testing.T) {
	s, made := startImages(t, smallRoot(t), nil)
	const script = `echo x 2>&1 >/srv/new; echo x 2>&1 >>/srv/lower; mkdir /srv/d 2>&1; rm /srv/lower 2>&1; echo x >/tmp/ok && cat /srv/lower`
	got := stdoutOf(t, s, inImage(script, false))
	if n := strings.Count(got, "Read-only file system"); n != 4 || !strings.HasSuffix(got, "the image's") {
		t.Errorf("%d of 4 refused: %q", n, got)
	}
	box, err := s.sandboxes.create(t.Context(), Self(), rootSpec{image: &made, writable: true}, "small")
	if err != nil {
		t.Fatal(err)
	}
	r := shell(script)
	r.Sandbox = box.id
	if s.host.LandlockABI > 0 {
		got = stdoutOf(t, s, r)
		if n := strings.Count(got, "Permission denied"); n != 4 || !strings.HasSuffix(got, "the image's") {
			t.Errorf("%d of 4 refused by Landlock: %q", n, got)
		}
	}
	r.SecurityContext.ReadOnlyRootFilesystem = new(false)
	r.Command.Argv[2] = "echo mine >/srv/lower && cat /srv/lower"
	if got := stdoutOf(t, s, r); got != "mine\n" {
		t.Errorf("%q", got)
	}
	closed, err := s.sandboxes.create(t.Context(), Self(), rootSpec{image: &made, writable: false}, "small")
	if err != nil {
		t.Fatal(err)
	}
	r.Sandbox = closed.id
	reply := s.Exec(t.Context(), r, Options{})
	if reply.Outcome != OutcomeDenied || len(reply.Reasons) != 1 || !strings.Contains(reply.Reasons[0].Message, "read-only root") {
		t.Errorf("%s %+v", reply.Outcome, reply.Reasons)
	}
	if err := mustOpen(t, s).Verify(made); err != nil {
		t.Error(err)
	}
}

func mustOpen(t testing.TB, s *Service) *image.Store {
	t.Helper()
	store, err := s.images.open()
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// TestImageIsShared: two sandboxes have one image below and each its own above, within its size; the image stays as it is.
func TestImageIsShared(t *testing.T) {
	s, made := startImages(t, smallRoot(t), nil)
	var boxes []*sandbox
	for range 2 {
		box, err := s.sandboxes.create(t.Context(), Self(), rootSpec{image: &made, writable: true}, "small")
		if err != nil {
			t.Fatal(err)
		}
		boxes = append(boxes, box)
	}
	in := func(box int, script string) string {
		r := inImage(script, true)
		r.Image, r.Sandbox = policy.Image{}, boxes[box].id
		return stdoutOf(t, s, r)
	}
	in(0, `echo one >/srv/lower; echo one >/srv/new; mkdir /srv/d; mv /srv/d /srv/e`)
	if got := in(1, `cat /srv/lower; ls /srv`); got != "the image'slower\n" {
		t.Errorf("another sandbox's: %q", got)
	}
	in(1, `rm /srv/lower; mkdir /srv/lower; ls -A /srv/lower`)
	if got := in(0, `cat /srv/lower; ls /srv`); got != "one\ne\nlower\nnew\n" {
		t.Errorf("what it wrote itself: %q", got)
	}
	got := in(0, `dd if=/dev/zero of=/srv/big bs=65536 count=64 2>&1; stat -c %s /srv/big; rm /srv/big; echo again >/srv/big && cat /srv/big`)
	if !strings.Contains(got, "No space left on device") || !strings.HasSuffix(got, "again\n") {
		t.Errorf("beyond 1 MiB: %q", got)
	}
	if err := mustOpen(t, s).Verify(made); err != nil {
		t.Error(err)
	}

	other, err := image.Open(ImagesDir(s.config.StateDir), image.DefaultLimits()) // as another process has it
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Remove("small"); !errors.Is(err, image.ErrInUse) {
		t.Errorf("removed in use: %v", err)
	}
	for _, box := range boxes {
		if err := s.sandboxes.delete(t.Context(), box.id, Self()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := other.Remove("small"); err != nil {
		t.Errorf("not in use: %v", err)
	}
}

// TestImageIsTheSandboxsOwn: in a root that can be written, what is root's in the image is the sandbox's user's, and nobody else's; on the disk it stays root's.
func TestImageIsTheSandboxsOwn(t *testing.T) {
	s, made := startImages(t, smallRoot(t), nil)
	if !s.sandboxes.mapsOwners() && s.host.UID == 0 {
		t.Skip("this file system, or a kernel before 5.19, gives files no other owners")
	}
	got := stdoutOf(t, s, inImage(`rm /bin/dd && touch /bin/new && mkdir /srv/d && id -u && stat -c %u / /etc /bin /bin/cat /bin/new`, true))
	fields := strings.Fields(got)
	if len(fields) != 6 {
		t.Fatalf("%q", got)
	}
	ours := "0"
	if s.host.UID != 0 { // one id is all there is
		ours = fields[0]
	}
	if me := fields[0]; !slices.Equal(fields[1:], []string{ours, ours, me, me, me}) {
		t.Errorf("owners of / /etc /bin /bin/cat /bin/new: %q, and the sandbox's user is %s", fields[1:], me)
	}
	if got := stdoutOf(t, s, inImage(`ls /bin/dd && stat -c %u /bin/cat`, false)); s.host.UID == 0 && got != "/bin/dd\n0\n" {
		t.Errorf("in a root that can't be written: %q", got)
	}
	if err := mustOpen(t, s).Verify(made); err != nil {
		t.Error(err)
	}
}

// savedRoot is a root as docker save would write it, with that use.
func savedRoot(t testing.TB, dir string, use image.Invocation) string {
	t.Helper()
	digest := func(data []byte) string {
		sum := sha256.Sum256(data)
		return "sha256:" + hex.EncodeToString(sum[:])
	}
	var layer, out bytes.Buffer
	w := tar.NewWriter(&layer)
	if err := errors.Join(w.AddFS(os.DirFS(dir)), w.Close()); err != nil {
		t.Fatal(err)
	}
	config, err := json.Marshal(map[string]any{"architecture": runtime.GOARCH, "os": "linux", "config": use,
		"rootfs": map[string]any{"diff_ids": []string{digest(layer.Bytes())}}})
	if err != nil {
		t.Fatal(err)
	}
	w = tar.NewWriter(&out)
	for name, data := range map[string][]byte{"config.json": config, "layer.tar": layer.Bytes(), "manifest.json": []byte(`[{"Config":"config.json","Layers":["layer.tar"]}]`)} {
		err = errors.Join(err, w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(data))}))
		_, wrote := w.Write(data)
		err = errors.Join(err, wrote)
	}
	path := filepath.Join(t.TempDir(), "image.tar")
	if err := errors.Join(err, w.Close(), os.WriteFile(path, out.Bytes(), 0o644)); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestImageUse: what an image says of its own use stands in where the request says nothing, and policy judges it.
func TestImageUse(t *testing.T) {
	use := image.Invocation{Env: []string{"GREETING=hello", "LANG=C"}, WorkingDir: "/srv", User: "app", Entrypoint: []string{"sh", "-c"},
		Cmd: []string{`echo "$GREETING $LANG $PWD"`}}
	s, _ := startImages(t, savedRoot(t, smallRoot(t), use), nil)
	r := inImage("", false)
	r.Command = policy.Command{}
	if got := stdoutOf(t, s, r); got != "hello C /srv\n" {
		t.Errorf("%q", got)
	}
	r = inImage(`echo "$GREETING $PWD $(id -u) $(id -g)"`, false)
	r.Command.Env, r.Command.Cwd = map[string]string{"GREETING": "mine"}, "/tmp"
	ids := "4321 4322"
	if s.host.UID != 0 {
		ids = "1000 1000"
	}
	if got := stdoutOf(t, s, r); got != "mine /tmp "+ids+"\n" {
		t.Errorf("%q", got)
	}

}

// TestImageUseIsJudged: what an image says may be refused like what a request says, and it may say nothing of a command.
func TestImageUseIsJudged(t *testing.T) {
	use := image.Invocation{Env: []string{"LD_PRELOAD=/srv/x.so"}}
	s, _ := startImages(t, savedRoot(t, smallRoot(t), use), nil)
	reply := s.Exec(t.Context(), inImage("true", false), Options{})
	if reply.Outcome != OutcomeDenied || len(reply.Reasons) == 0 || reply.Reasons[0].Rule != "exec.env" {
		t.Errorf("%s %+v", reply.Outcome, reply.Reasons)
	}
}

func TestImageWithoutACommand(t *testing.T) {
	none := inImage("", false)
	none.Command = policy.Command{}
	s, _ := startImages(t, smallRoot(t), nil)
	if reply := s.Exec(t.Context(), none, Options{}); reply.Outcome != OutcomeDenied || reply.Reasons[0].Field != "command.argv" {
		t.Errorf("%s %+v", reply.Outcome, reply.Reasons)
	}
}

// TestImageProbes: forbidden acts are refused in a sandbox whose root can be written as in any other, in one of the same image.
func TestImageProbes(t *testing.T) {
	s, made := startImages(t, smallRoot(t), nil)
	box, err := s.sandboxes.create(t.Context(), Self(), rootSpec{image: &made, writable: true}, "small")
	if err != nil {
		t.Fatal(err)
	}
	r := inImage("true", true)
	r.Sandbox, r.Image = box.id, policy.Image{}
	w, err := s.enter(t.Context(), r, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.leave(w)
	if err := errors.Join(w.decide(), w.build()); err != nil {
		t.Fatal(err)
	}
	proof, err := s.proveFresh(t.Context(), w.plan, w.box.root)
	if err != nil || !proof.held() {
		t.Errorf("%v %+v", err, proof.Failed)
	}
	// The same by hand, in the sandbox itself: under the plan of an exec that may only read.
	reply, err := s.Verify(t.Context(), VerifyRequest{Sandbox: box.id}, Self(), true)
	if err != nil || !reply.Held {
		t.Errorf("%v %+v", err, reply)
	}
}

// TestImageOfTheHost: a name may mean the host's own directories.
func TestImageOfTheHost(t *testing.T) {
	c := testConfig(t)
	c.Images = []NamedImage{{Name: "small", Path: policy.ImageHost}}
	s := start(t, c)
	if has, err := s.HasImage("small"); err != nil || !has {
		t.Error(has, err)
	}
	if got := stdoutOf(t, s, inImage("ls -d /usr/bin", false)); got != "/usr/bin\n" {
		t.Errorf("%q", got)
	}
	if reply := s.Exec(t.Context(), inImage("true", true), Options{}); reply.Outcome != OutcomeDenied {
		t.Errorf("the host's own, to be written: %s", reply.Outcome)
	}
}

// TestImagesWait: from the second time on sandboxes of an image are ready, and those of one that nobody asks for end.
func TestImagesWait(t *testing.T) {
	s, made := startImages(t, smallRoot(t), func(c *Config) { c.Pool = 1 })
	waiting := func() (n int) {
		s.sandboxes.mu.Lock()
		defer s.sandboxes.mu.Unlock()
		for _, shelf := range s.sandboxes.roots.shelves {
			n += len(shelf.ready)
		}
		return n
	}
	for range 2 {
		stdoutOf(t, s, inImage("true", false))
	}
	until(t, "one waits", func() bool { return waiting() == 1 })
	box, err := s.sandboxes.take(t.Context(), "", Self(), rootSpec{image: &made, writable: false})
	if err != nil || time.Since(box.created) <= 0 {
		t.Fatal(err)
	}
	s.sandboxes.putBack(box)
	if got := stdoutOf(t, s, inImage("cat /srv/lower", false)); got != "the image's" {
		t.Errorf("%q", got)
	}
	writable, err := s.sandboxes.take(t.Context(), "", Self(), rootSpec{image: &made, writable: true})
	if err != nil || !writable.Plan().WritableRoot() {
		t.Fatal(err)
	}
	s.sandboxes.putBack(writable)
	until(t, "one waits", func() bool { return waiting() == 1 })
	s.sandboxes.mu.Lock()
	for _, shelf := range s.sandboxes.roots.shelves {
		shelf.asked = time.Now().Add(-2 * idleRoot)
	}
	s.sandboxes.mu.Unlock()
	s.sandboxes.want()
	until(t, "none waits", func() bool { return waiting() == 0 })
	until(t, "the image isn't used", func() bool {
		_, err := mustOpen(t, s).Remove("small")
		return err == nil
	})
}

// TestWithoutOverlay: a kernel that has no overlayfs is named, and nothing else is taken for it.
func TestWithoutOverlay(t *testing.T) {
	missing := &runner.LauncherError{Step: "root", Errno: unix.ENODEV, Message: "fsopen: no such device"}
	var refused *enforcer.RefusedError
	if err := (rootSpec{image: &image.Image{}}).withoutOverlay(missing); !errors.As(err, &refused) || refused.Lack != "overlayfs" {
		t.Error(err)
	}
	other := &runner.LauncherError{Step: "root", Errno: unix.EPERM}
	if err := (rootSpec{image: &image.Image{}}).withoutOverlay(other); err != error(other) {
		t.Error(err)
	}
	if err := (rootSpec{}).withoutOverlay(missing); err != error(missing) {
		t.Error(err)
	}
}
