package datarobot

import (
	"encoding/json/v2"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// image is what the Dockerfile of docs/datarobot.md says, for a container whose root is made of this machine's directories: its base image is not fetched.
type image struct {
	uid, gid   int
	directory  string
	env        []string
	entrypoint []string
	copied     map[string]string // destination: source
}

// documentedImage reads that Dockerfile. A line that it doesn't know is a line that nobody tests.
func documentedImage(t *testing.T) image {
	t.Helper()
	doc, err := os.ReadFile("../../docs/datarobot.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(string(doc), "```dockerfile\n")
	text, _, ended := strings.Cut(text, "```")
	if !found || !ended {
		t.Fatal("docs/datarobot.md has no Dockerfile")
	}
	// As the python image has them.
	made := image{env: []string{"PATH=/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"}, copied: map[string]string{}}
	for line := range strings.Lines(text) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		var err error
		switch word {
		case "FROM":
		case "COPY":
			source, destination, _ := strings.Cut(rest, " ")
			made.copied[filepath.Join(destination, source)] = source
		case "USER":
			_, err = fmt.Sscanf(rest, "%d:%d", &made.uid, &made.gid)
		case "WORKDIR":
			made.directory = rest
		case "ENV":
			made.env = append(made.env, rest)
		case "ENTRYPOINT":
			err = json.Unmarshal([]byte(rest), &made.entrypoint)
		default:
			err = fmt.Errorf("what is %s?", word)
		}
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
	}
	if made.uid == 0 || made.directory == "" || len(made.entrypoint) == 0 || len(made.copied) == 0 {
		t.Fatalf("the Dockerfile makes %+v", made)
	}
	return made
}

// root makes the image's root in a folder, but for the directories of this machine, which are mounted: it names those.
func (i image) root(t *testing.T, folder string, sources map[string]string) (mounted []string) {
	t.Helper()
	for _, name := range []string{"proc", "dev", "tmp", "usr/local/bin", "usr/bin", "usr/lib", "etc", i.directory} {
		if err := os.MkdirAll(filepath.Join(folder, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(folder, "tmp"), 0o1777); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"bin", "sbin", "lib", "lib64", "lib32"} {
		switch target, err := os.Readlink("/" + name); {
		case err == nil:
			if err := os.Symlink(target, filepath.Join(folder, name)); err != nil {
				t.Fatal(err)
			}
		case isDirectory("/" + name):
			mounted = append(mounted, "/"+name)
		}
	}
	for _, name := range []string{"/usr/bin", "/usr/sbin", "/usr/lib", "/usr/lib64", "/usr/share"} {
		if isDirectory(name) {
			mounted = append(mounted, name)
		}
	}
	for destination, source := range i.copied {
		data, err := os.ReadFile(sources[source])
		if err != nil {
			t.Fatalf("COPY %s: %v", source, err)
		}
		if err := os.WriteFile(filepath.Join(folder, destination), data, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return append(mounted, "/etc")
}

func isDirectory(name string) bool {
	info, err := os.Lstat(name)
	return err == nil && info.IsDir()
}

// bundle writes the config of a container of the image (OCI runtime-spec 1.0), as Docker runs one: its capabilities are those that a process of an ordinary
// user has there, none, and no_new_privs and seccomp are off.
func (i image) bundle(t *testing.T, folder string, mounted []string, env map[string]string, cgroup string) {
	t.Helper()
	type object = map[string]any
	bounding := []string{"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FSETID", "CAP_FOWNER", "CAP_MKNOD", "CAP_NET_RAW", "CAP_SETGID", "CAP_SETUID", "CAP_SETFCAP",
		"CAP_SETPCAP", "CAP_NET_BIND_SERVICE", "CAP_SYS_CHROOT", "CAP_KILL", "CAP_AUDIT_WRITE"}
	mounts := []object{
		{"destination": "/proc", "type": "proc", "source": "proc", "options": []string{"nosuid", "noexec", "nodev"}},
		{"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": []string{"nosuid", "mode=755", "size=65536k"}},
		{"destination": "/dev/shm", "type": "tmpfs", "source": "shm", "options": []string{"nosuid", "noexec", "nodev", "mode=1777", "size=65536k"}},
	}
	for _, name := range mounted {
		mounts = append(mounts, object{"destination": name, "type": "bind", "source": name, "options": []string{"rbind", "ro", "nosuid", "nodev"}})
	}
	variables := append([]string{"HOSTNAME=test", "HOME=/"}, i.env...)
	for name, value := range env {
		variables = append(variables, name+"="+value)
	}
	namespaces := []object{}
	for _, kind := range []string{"pid", "ipc", "uts", "mount", "network"} {
		namespaces = append(namespaces, object{"type": kind})
	}
	config, err := json.Marshal(object{
		"ociVersion": "1.0.2", "hostname": "test", "root": object{"path": "root"}, "mounts": mounts,
		"process": object{
			"user": object{"uid": i.uid, "gid": i.gid}, "args": i.entrypoint, "env": variables, "cwd": i.directory,
			"capabilities": object{"bounding": bounding, "effective": []string{}, "permitted": []string{}, "inheritable": []string{}, "ambient": []string{}},
		},
		"linux": object{
			"namespaces": namespaces, "cgroupsPath": cgroup,
			"maskedPaths":   []string{"/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list", "/proc/sched_debug", "/proc/scsi"},
			"readonlyPaths": []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "config.json"), config, 0o600); err != nil {
		t.Fatal(err)
	}
}

// cgroupName is one that nobody else has.
func cgroupName(n int) string {
	return "/sandboxd-test-" + strconv.Itoa(os.Getpid()) + "-" + strconv.Itoa(n)
}
