package engine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/sandboxd/sandboxd/policy"
)

// writeBundle puts files into a directory.
func writeBundle(tb testing.TB, dir string, files fstest.MapFS) {
	tb.Helper()
	for name, file := range files {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, file.Data, 0o644)); err != nil {
			tb.Fatal(err)
		}
	}
}

// watched opens a directory whose reloads come on the channel.
func watched(t *testing.T, dir string, o Options) (*Engine, <-chan Status) {
	t.Helper()
	reloads := make(chan Status, 64)
	o.Dir, o.OnReload = dir, func(status Status) { reloads <- status }
	if o.Settle == 0 {
		o.Settle = 20 * time.Millisecond
	}
	return open(t, o), reloads
}

func next(t *testing.T, reloads <-chan Status) Status {
	t.Helper()
	select {
	case status := <-reloads:
		return status
	case <-time.After(30 * time.Second):
		t.Fatal("no reload")
		return Status{}
	}
}

// shorter is a request of 1000 s, which the default bundle allows and one with a lower maximum doesn't.
func shorter() policy.Request {
	request := trap()
	request.Limits.TimeoutSeconds = 1000
	return request
}

const (
	maximum      = `"timeoutSeconds": 3600`
	lowerMaximum = `"timeoutSeconds": 900`
)

// lowered is the default bundle with a lower maximum, and without the corpus and tests that know the higher one.
func lowered(tb testing.TB) fstest.MapFS {
	files := replaced(tb, "data.json", maximum, lowerMaximum)
	delete(files, "corpus/limits.json")
	delete(files, "limits/maximum_test.rego")
	return files
}

// withoutNumbers is the default bundle without the corpus and the tests that know the maxima.
func withoutNumbers(tb testing.TB) fstest.MapFS {
	files := defaultFiles(tb)
	delete(files, "corpus/limits.json")
	delete(files, "limits/maximum_test.rego")
	return files
}

func TestReloadTakesAnEdit(t *testing.T) {
	dir := t.TempDir()
	writeBundle(t, dir, withoutNumbers(t))
	e, reloads := watched(t, dir, Options{Poll: time.Hour})
	before := e.Status()
	if !e.Decide(t.Context(), shorter()).Allow {
		t.Fatal("denied before the edit")
	}
	writeBundle(t, dir, fstest.MapFS{"data.json": lowered(t)["data.json"]})
	status := next(t, reloads)
	if status.Stale || status.Revision == before.Revision || !status.LoadedAt.After(before.LoadedAt) {
		t.Fatalf("%+v", status)
	}
	// The cache of the former policy is gone with it.
	wantDenied(t, e.Decide(t.Context(), shorter()), "limits.maximum")
}

// A file in a folder that was made later is seen as well.
func TestReloadSeesNewFolders(t *testing.T) {
	dir := t.TempDir()
	writeBundle(t, dir, defaultFiles(t))
	e, reloads := watched(t, dir, Options{Poll: time.Hour})
	writeBundle(t, dir, fstest.MapFS{"more/first.rego": {Data: []byte("package sandboxd.more\n\nfirst := 1\n")}})
	first := next(t, reloads)
	writeBundle(t, dir, fstest.MapFS{"more/first.rego": {Data: []byte("package sandboxd.more\n\nfirst := 2\n")}})
	if second := next(t, reloads); second.Stale || second.Revision == first.Revision || e.Status().Revision != second.Revision {
		t.Errorf("%+v, then %+v", first, second)
	}
}

// E5, E14 and worse: the last good policy stays, and the status says so; what was broken is mended by an edit or by taking it back.
func TestBadEditKeepsTheLastGood(t *testing.T) {
	for name, row := range map[string]struct {
		file, from, to string
		word           string
	}{
		"syntax":                {"network/egress.rego", "deny contains reason if {", "deny contains reason if {{", "rego_parse_error"},
		"no such function":      {"network/egress.rego", "count(kept)", "counted(kept)", "counted"},
		"a builtin that's gone": {"network/egress.rego", "count(kept)", "time.now_ns()", "time.now_ns"},
		"data cut short":        {"data.json", "\"settings\"", "", "data.json"},
		"data said twice":       {"data.json", `"pids": 4096`, `"pids": 4096, "pids": 4194304`, "data.json"},
		"data of a wrong kind":  {"data.json", `"capabilities_add": []`, `"capabilities_add": "none"`, "tests"},
		"a test that fails":     {"network/egress_test.rego", `proven == {"network.egress"}`, `proven == {"network.ingress"}`, "network/egress_test.rego"},
		"a corpus that differs": {"corpus/network.json", `"want": "allow"`, `"want": "maybe"`, "corpus/network.json"},
		"an open network":       {"network/egress.rego", `object.get(data.settings.network, "default_actions", ["deny"])`, `["allow", "deny"]`, "network"},
		"a question left out":   {"main/decision.rego", `context.proven, `, ``, "decision"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			writeBundle(t, dir, defaultFiles(t))
			e, reloads := watched(t, dir, Options{Poll: time.Hour})
			good := e.Status()
			writeBundle(t, dir, fstest.MapFS{row.file: replaced(t, row.file, row.from, row.to)[row.file]})
			status := next(t, reloads)
			if !status.Stale || status.Revision != good.Revision || !strings.Contains(status.Error, row.word) {
				t.Fatalf("want stale with %q, got %+v", row.word, status)
			}
			if decision := e.Decide(t.Context(), trap()); !decision.Allow || decision.Revision != good.Revision {
				t.Errorf("the last good policy doesn't judge: %+v", decision)
			}
			writeBundle(t, dir, fstest.MapFS{row.file: defaultFiles(t)[row.file]})
			if status := next(t, reloads); status.Stale || status.Error != "" || status.Revision != good.Revision {
				t.Errorf("after the edit was taken back: %+v", status)
			}
		})
	}
}

// A bundle whose own tests and corpus are silent is still asked what nothing may allow.
func TestReloadRefusesWhatMustBeDenied(t *testing.T) {
	dir := t.TempDir()
	writeBundle(t, dir, tiny(`not input.securityContext.privileged`))
	e, reloads := watched(t, dir, Options{Poll: time.Hour})
	good := e.Status()
	writeBundle(t, dir, tiny(`input.action != "network"`))
	status := next(t, reloads)
	if !status.Stale || status.Revision != good.Revision || !strings.Contains(status.Error, "must-deny: the bundle allows a privileged context") {
		t.Fatalf("%+v", status)
	}
	request := trap()
	request.SecurityContext.Privileged = new(true)
	if e.Decide(t.Context(), request).Allow {
		t.Error("the refused bundle judges")
	}
}

// tiny is a bundle of one condition beside what nothing may allow, with the least that a bundle needs.
func tiny(condition string) fstest.MapFS {
	return fstest.MapFS{
		"decision.rego": {Data: []byte(`package sandboxd

default allow := false

allow if {
	` + condition + `
	input.command.argv != ["no"]
	not "SYS_ADMIN" in input.securityContext.capabilities.add
	count(input.securityContext.capabilities.add) == 0
	not input.securityContext.allowPrivilegeEscalation
	input.securityContext.runAsUser != 0
	input.securityContext.runAsGroup != 0
	count(input.securityContext.supplementalGroups) == 0
	input.securityContext.procMount == "Default"
	input.securityContext.seccompProfile.type == "RuntimeDefault"
	count(input.network.egress) == 0
}

reasons contains {"rule": "tiny", "message": "No."} if not allow

decision := {"allow": allow, "reasons": reasons}
`)},
		"decision_test.rego": {Data: []byte("package sandboxd_test\n\nimport data.sandboxd\n\ntest_nothing if not sandboxd.allow with input as {}\n")},
		"corpus/all.json": {Data: []byte(`{"title": "All", "cases": [
			{"title": "Yes", "request": {"action": "exec", "command": {"argv": ["yes"]}}, "want": "allow"},
			{"title": "No", "request": {"action": "exec", "command": {"argv": ["no"]}}, "want": "deny", "because": ["tiny"]}]}`)},
	}
}

// E10: a ConfigMap volume is swapped by renaming a link.
func TestReloadSeesAConfigMapSwap(t *testing.T) {
	dir := t.TempDir()
	configMap(t, dir, "..2026_01_01", withoutNumbers(t))
	e, reloads := watched(t, dir, Options{Poll: time.Hour})
	if !e.Decide(t.Context(), shorter()).Allow {
		t.Fatal("denied before the swap")
	}
	for i, row := range []struct {
		files fstest.MapFS
		allow bool
	}{{lowered(t), false}, {withoutNumbers(t), true}, {lowered(t), false}} {
		configMap(t, dir, fmt.Sprintf("..2026_01_%02d", i+2), row.files)
		if status := next(t, reloads); status.Stale {
			t.Fatalf("%+v", status)
		}
		if e.Decide(t.Context(), shorter()).Allow != row.allow {
			t.Errorf("swap %d is not in force", i)
		}
	}
}

// configMap does as the kubelet: a new directory, a new link to it renamed over ..data, the former directory removed.
func configMap(t *testing.T, dir, generation string, files fstest.MapFS) {
	t.Helper()
	former, _ := os.Readlink(filepath.Join(dir, "..data"))
	writeBundle(t, filepath.Join(dir, generation), files)
	if err := os.Symlink(generation, filepath.Join(dir, "..data_tmp")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
		t.Fatal(err)
	}
	for name := range files {
		first, _, _ := strings.Cut(name, "/")
		os.Symlink(filepath.Join("..data", first), filepath.Join(dir, first)) // There since the first time.
	}
	if former != "" {
		if err := os.RemoveAll(filepath.Join(dir, former)); err != nil {
			t.Fatal(err)
		}
	}
}

// All files are read beneath one generation, whatever the links beside it say meanwhile.
func TestGenerationRoot(t *testing.T) {
	dir := t.TempDir()
	if root, err := generationRoot(dir); err != nil || root != dir {
		t.Errorf("without ..data: %s, %v", root, err)
	}
	configMap(t, dir, "..one", tiny("true"))
	if root, err := generationRoot(dir); err != nil || root != filepath.Join(dir, "..one") {
		t.Errorf("with ..data: %s, %v", root, err)
	}
	plain := t.TempDir()
	writeBundle(t, plain, fstest.MapFS{"..data/a.md": {}})
	if root, err := generationRoot(plain); err != nil || root != plain {
		t.Errorf("..data that is no link: %s, %v", root, err)
	}
}

func TestDataLinkMustStayInside(t *testing.T) {
	outside := t.TempDir()
	writeBundle(t, outside, defaultFiles(t))
	dir := t.TempDir()
	if err := os.Symlink(outside, filepath.Join(dir, "..data")); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), "..data") {
		t.Errorf("want an error about ..data, got %v", err)
	}
}

// Lost events, such as those of a network file system, are made up for.
func TestPollFindsWhatNoEventTold(t *testing.T) {
	dir := t.TempDir()
	writeBundle(t, dir, withoutNumbers(t))
	// Events don't count for an hour.
	e, reloads := watched(t, dir, Options{Settle: time.Hour, Poll: 50 * time.Millisecond})
	writeBundle(t, dir, fstest.MapFS{"data.json": lowered(t)["data.json"]})
	for status := next(t, reloads); status.Stale; status = next(t, reloads) {
		continue // A poll may see half of the file.
	}
	wantDenied(t, e.Decide(t.Context(), shorter()), "limits.maximum")
}

// A file that is written slowly is never taken by half: every policy in force on the way is the former or the latter.
func TestHalfWrittenFilesAreNeverInForce(t *testing.T) {
	dir := t.TempDir()
	writeBundle(t, dir, defaultFiles(t))
	e, reloads := watched(t, dir, Options{Settle: time.Millisecond, Poll: time.Hour})
	good := e.Status().Revision
	whole := append(defaultFiles(t)["network/egress.rego"].Data, "\n# Edited.\n"...)
	path := filepath.Join(dir, "network/egress.rego")
	for cut := 0; cut < len(whole)*5/6; cut += len(whole) / 6 {
		if err := os.WriteFile(path, whole[:cut], 0o644); err != nil {
			t.Fatal(err)
		}
		if status := next(t, reloads); !status.Stale || status.Revision != good {
			t.Fatalf("%d bytes of %d: %+v", cut, len(whole), status)
		}
		if !e.Decide(t.Context(), trap()).Allow {
			t.Fatalf("%d bytes of %d: the last good policy doesn't judge", cut, len(whole))
		}
	}
	if err := os.WriteFile(path, whole, 0o644); err != nil {
		t.Fatal(err)
	}
	for status := next(t, reloads); ; status = next(t, reloads) {
		if !status.Stale {
			if status.Revision == good {
				t.Errorf("%+v", status)
			}
			return
		}
	}
}

// What changes while it is tested is not taken, however good it was when it was read.
func TestUnsettledDirectoryIsNotTaken(t *testing.T) {
	dir := t.TempDir()
	writeBundle(t, dir, tiny("not input.securityContext.privileged"))
	e := open(t, Options{Dir: dir, Settle: time.Hour, Poll: time.Hour})
	stop := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				// Renamed into place, so that no read fails.
				temporary := filepath.Join(dir, ".notes.md")
				if err := errors.Join(os.WriteFile(temporary, fmt.Append(nil, i), 0o644), os.Rename(temporary, filepath.Join(dir, "notes.md"))); err != nil {
					t.Error(err)
					return
				}
			}
		}
	})
	// On a busy machine the writer may sleep through a whole load, which is then right to take what it read.
	_, err := e.loadDirectory(t.Context())
	for tries := 0; err == nil && tries < 100; tries++ {
		_, err = e.loadDirectory(t.Context())
	}
	close(stop)
	group.Wait()
	if !errors.Is(err, errUnsettled) {
		t.Errorf("want %v, got %v", errUnsettled, err)
	}
	if _, err := e.loadDirectory(t.Context()); err != nil {
		t.Errorf("now that it is quiet: %v", err)
	}
}

func TestReloadUnderLoad(t *testing.T) {
	dir := t.TempDir()
	writeBundle(t, dir, withoutNumbers(t))
	e, reloads := watched(t, dir, Options{Poll: time.Hour})
	high := e.Status().Revision
	stop := make(chan struct{})
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				decision := e.Decide(t.Context(), shorter())
				if decision.Allow != (decision.Revision == high) {
					t.Errorf("revision %s answered allow %v", decision.Revision, decision.Allow)
					return
				}
			}
		})
	}
	for _, files := range []fstest.MapFS{lowered(t), withoutNumbers(t)} {
		temporary := filepath.Join(dir, ".data.json")
		if err := errors.Join(os.WriteFile(temporary, files["data.json"].Data, 0o644), os.Rename(temporary, filepath.Join(dir, "data.json"))); err != nil {
			t.Fatal(err)
		}
		if status := next(t, reloads); status.Stale {
			t.Errorf("%+v", status)
		}
	}
	close(stop)
	group.Wait()
}

// A directory that goes away leaves the last good policy, and counts again when it is back.
func TestDirectoryThatVanishes(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "policy")
	writeBundle(t, dir, defaultFiles(t))
	e, reloads := watched(t, dir, Options{Poll: 50 * time.Millisecond})
	good := e.Status()
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	if status := next(t, reloads); !status.Stale || status.Revision != good.Revision {
		t.Fatalf("%+v", status)
	}
	if err := os.Rename(dir+".away", dir); err != nil {
		t.Fatal(err)
	}
	if status := next(t, reloads); status.Stale || status.Revision != good.Revision {
		t.Fatalf("%+v", status)
	}
}

// E6: nothing to fall back to.
func TestBadBundleAtTheStart(t *testing.T) {
	dir := t.TempDir()
	writeBundle(t, dir, replaced(t, "main/decision.rego", "default allow := false", "default allow := "))
	if e, err := Open(t.Context(), Options{Dir: dir}); err == nil || e != nil {
		t.Errorf("want an error and no engine, got %v, %v", e, err)
	}
	if _, err := Open(t.Context(), Options{Dir: filepath.Join(dir, "nowhere")}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("want %v, got %v", os.ErrNotExist, err)
	}
}

func TestFilesThatAreRefused(t *testing.T) {
	for name, row := range map[string]struct {
		make func(dir string) error
		word string
	}{
		"a FIFO":                 {func(dir string) error { return syscall.Mkfifo(filepath.Join(dir, "a.rego"), 0o644) }, "not a regular file"},
		"a device by a link":     {func(dir string) error { return os.Symlink("/dev/zero", filepath.Join(dir, "a.rego")) }, "not a regular file"},
		"a broken link":          {func(dir string) error { return os.Symlink("nowhere", filepath.Join(dir, "a.rego")) }, "no such file"},
		"a circle of links":      {func(dir string) error { return os.Symlink(".", filepath.Join(dir, "circle")) }, "folders deep"},
		"YAML":                   {func(dir string) error { return os.WriteFile(filepath.Join(dir, "data.yaml"), nil, 0o644) }, "data.yaml: unknown kind"},
		"a rule by another name": {func(dir string) error { return os.WriteFile(filepath.Join(dir, "a.rego.txt"), nil, 0o644) }, "a.rego.txt: unknown kind"},
		"a large file": {func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "a.rego"), make([]byte, mostFileBytes+1), 0o644)
		}, "more than 1048576 bytes"},
		"a large bundle": {func(dir string) error {
			var err error
			for i := range mostTotalBytes/mostFileBytes + 1 {
				err = errors.Join(err, os.WriteFile(filepath.Join(dir, fmt.Sprintf("a%d.md", i)), make([]byte, mostFileBytes), 0o644))
			}
			return err
		}, "at most"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			writeBundle(t, dir, defaultFiles(t))
			if err := row.make(dir); err != nil {
				t.Fatal(err)
			}
			if _, err := readDirectory(dir); err == nil || !strings.Contains(err.Error(), row.word) {
				t.Errorf("want %q, got %v", row.word, err)
			}
		})
	}
}

func TestFilesThatAreLeftAlone(t *testing.T) {
	dir := t.TempDir()
	writeBundle(t, dir, defaultFiles(t))
	before, err := readDirectory(dir)
	if err != nil {
		t.Fatal(err)
	}
	writeBundle(t, dir, fstest.MapFS{".a.rego.swp": {Data: []byte("x")}, "a.rego~": {Data: []byte("x")}, ".git/config": {Data: []byte("x")}})
	after, err := readDirectory(dir)
	if err != nil || after.revision != before.revision {
		t.Errorf("%v, revision %s and then %s", err, before.revision, after.revision)
	}
}

// A regular file behind a link is read; so is a bundle that is the same as the built-in one, with the same revision.
func TestLinksAndRevision(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	writeBundle(t, dir, defaultFiles(t))
	if err := errors.Join(os.Rename(filepath.Join(dir, "data.json"), filepath.Join(elsewhere, "d")), os.Symlink(filepath.Join(elsewhere, "d"), filepath.Join(dir, "data.json"))); err != nil {
		t.Fatal(err)
	}
	linked, err := readDirectory(dir)
	if err != nil {
		t.Fatal(err)
	}
	builtIn, err := readBundle(defaultFiles(t))
	if err != nil || linked.revision != builtIn.revision {
		t.Errorf("%v: %s and %s", err, linked.revision, builtIn.revision)
	}
}

func TestRevisionCoversNamesAndContents(t *testing.T) {
	seen := map[string]bool{}
	for _, files := range []map[string][]byte{
		{}, {"a": nil}, {"b": nil}, {"a": []byte("b")}, {"ab": nil}, {"a": nil, "b": nil}, {"a": []byte("\x00"), "b": nil},
	} {
		seen[digestFiles(files)] = true
	}
	if len(seen) != 7 {
		t.Errorf("%d digests of 7 bundles", len(seen))
	}
}

// Watching a file ends with an empty list when it is replaced: only directories may be watched.
func TestOnlyDirectoriesAreWatched(t *testing.T) {
	dir := t.TempDir()
	writeBundle(t, dir, defaultFiles(t))
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Close()
	if err := watchFolders(watcher, dir); err != nil {
		t.Fatal(err)
	}
	list := watcher.WatchList()
	for _, path := range list {
		if info, err := os.Stat(path); err != nil || !info.IsDir() {
			t.Errorf("%s is watched (%v)", path, err)
		}
	}
	if len(list) != 10 {
		t.Errorf("%d directories are watched: %v", len(list), list)
	}
}
