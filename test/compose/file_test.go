package compose

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
)

const file = "../../deploy/compose.yaml"

// load reads a file as Compose does: its schema, where an unknown key is an error, variables, defaults, and what refers to what.
func load(path string, env ...string) (*types.Project, error) {
	options, err := cli.NewProjectOptions([]string{path}, cli.WithEnv(env), cli.WithInterpolation(true), cli.WithResolvedPaths(true))
	if err != nil {
		return nil, err
	}
	return options.LoadProject(context.Background())
}

func mustLoad(t *testing.T) *types.Project {
	t.Helper()
	project, err := load(file, "RUNNER_IMAGE=runner:1")
	if err != nil {
		t.Fatal(err)
	}
	return project
}

// TestFileIsStrict: Compose reads it, wants the one image that nobody can know, and this reading notices a word that isn't Compose's.
func TestFileIsStrict(t *testing.T) {
	mustLoad(t)
	if _, err := load(file); err == nil || !strings.Contains(err.Error(), "RUNNER_IMAGE") {
		t.Errorf("without the runner's image: %v", err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{"read_only: true": "readonly: true", "cap_drop: [ALL]": "cap_drop: {ALL: true}", "pid: service:sandboxd": "pid: service:other", "service_healthy": "service_helthy"} {
		changed := filepath.Join(t.TempDir(), "compose.yaml")
		if !strings.Contains(string(text), from) {
			t.Fatalf("%q isn't there", from)
		}
		if err := os.WriteFile(changed, []byte(strings.Replace(string(text), from, to, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := load(changed, "RUNNER_IMAGE=runner:1"); err == nil {
			t.Errorf("%s is taken", to)
		}
	}
}

// TestEachServiceIsTight, and users and processes are apart as sandboxd needs them.
func TestEachServiceIsTight(t *testing.T) {
	project := mustLoad(t)
	users := map[string]string{}
	for name, s := range project.Services {
		users[name] = s.User
		switch {
		case !s.ReadOnly:
			t.Errorf("%s: its root can be written to", name)
		case !slices.Equal(s.CapDrop, []string{"ALL"}) || len(s.CapAdd) > 0 || s.Privileged:
			t.Errorf("%s: has capabilities", name)
		case !slices.Equal(s.SecurityOpt, []string{"no-new-privileges:true"}):
			t.Errorf("%s: security_opt %v", name, s.SecurityOpt)
		case s.NetworkMode != map[string]string{"runner": "service:sandboxd", "sandboxd": "none", "install": "none"}[name] || len(s.Ports) > 0:
			t.Errorf("%s: has a network", name)
		case s.User == "" || strings.HasPrefix(s.User, "0"):
			t.Errorf("%s: is root", name)
		case s.MemLimit == 0 || s.PidsLimit == 0:
			t.Errorf("%s: isn't bounded", name)
		case len(s.Devices) > 0 || s.UserNSMode == "host" || s.Ipc == "host":
			t.Errorf("%s: has something of the host's", name)
		}
		for _, v := range s.Volumes {
			if v.Type != types.VolumeTypeVolume {
				t.Errorf("%s: %s is the host's", name, v.Source)
			}
			if name == "runner" && !v.ReadOnly {
				t.Errorf("%s: may write to %s", name, v.Target)
			}
			if name == "runner" && v.Source != "launcher" && v.Source != "connect" {
				t.Errorf("%s: sees %s", name, v.Source)
			}
		}
	}
	if users["runner"] == users["sandboxd"] || users["install"] != users["sandboxd"] {
		t.Errorf("users %v", users)
	}
	if pid := project.Services["runner"].Pid; pid != "service:sandboxd" {
		t.Errorf("the runner's processes are in %q", pid)
	}
	if wait := project.Services["runner"].DependsOn["sandboxd"].Condition; wait != types.ServiceConditionHealthy {
		t.Errorf("the runner waits for sandboxd: %s", wait)
	}
	uid, _, _ := strings.Cut(users["runner"], ":")
	if !slices.Contains(project.Services["sandboxd"].Command, "--runner-uid="+uid) || project.Services["runner"].Entrypoint[3] != "65532" {
		t.Error("the two don't expect each other's uid")
	}
}
