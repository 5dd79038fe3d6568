package audit

import (
	"encoding/json/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sandboxd/sandboxd/policy"
)

// canary is what no record may have in it, whole or in half.
const canary = "s3cr3tC4nary9x7Q2w"

func TestRedactTakesSecretsOut(t *testing.T) {
	const c = canary
	for _, argv := range [][]string{
		{"mysql", "--password=" + c},
		{"mysql", "--password", c},
		{"mysql", "-password", c},
		{"tool", "--db-password=" + c, "--api-key", c, "--auth-token", c, "--client_secret=" + c},
		{"env", "AWS_SECRET_ACCESS_KEY=" + c, "DB_PASSWORD=" + c, "GITHUB_TOKEN=" + c, "token=" + c, "secret=" + c},
		{"java", "-DdbPassword=" + c, "-Djavax.net.ssl.keyStorePassword=" + c},
		{"curl", "-u", "me:" + c, "http://x/"},
		{"curl", "--user", "me:" + c},
		{"curl", "-H", "Authorization: Bearer " + c},
		{"curl", "-H", "authorization: token " + c},
		{"curl", "-H", "X-Api-Key: " + c},
		{"curl", "-H", "Cookie: a=b; sid=" + c},
		{"curl", "https://me:" + c + "@example.org/x"},
		{"git", "clone", "https://" + c + "@example.org/x.git"},
		{"curl", "https://example.org/?a=b&access_token=" + c + "&d=e"},
		{"curl", "-d", `{"user":"me","password":"` + c + `"}`},
		{"curl", "-d", `{"apiKey" : "` + c + `"}`},
		{"sh", "-c", "export TOKEN=" + c + "; run --password " + c + " -x && curl -u me:" + c + " h"},
		{"sh", "-c", `PGPASSWORD="` + c + `" psql`},
		{"sh", "-c", "echo " + strings.Repeat("a", 240) + " --password=" + c},
		{"sh", "-c", strings.Repeat("password=x ", 400) + "password=" + c},
		{"echo", "AKIA" + "IOSFODNN7EXAMPLE" + "", "ghp_" + c + c, "sk-ant-" + c + c, "xoxb-" + c},
		{"echo", "eyJhbGciOiJIUzI1NiJ9." + c + "." + c},
		{"echo", "-----BEGIN RSA PRIVATE KEY-----\n" + c + "\n-----END RSA PRIVATE KEY-----"},
		{"echo", "-----BEGIN PRIVATE KEY-----\n" + c},
		{"echo", "wJalrXUtnFEMI/K7MDENG/" + c},
	} {
		got := strings.Join(Redact(argv), " ")
		if again := strings.Join(Redact(Redact(argv)), " "); len(argv) < 4 && again != got && !strings.Contains(got, "…") {
			t.Errorf("Redact of %q isn't stable: %q", got, again)
		}
		for _, leak := range []string{c, c[:9], c[9:], "IOSFODNN7"} {
			if strings.Contains(got, leak) {
				t.Errorf("Redact(%q) = %q", argv, got)
				break
			}
		}
	}
}

func TestRedactKeepsWhatIsHarmless(t *testing.T) {
	for _, argv := range [][]string{
		{"python3", "-c", "print(sum(range(10)))"},
		{"ls", "-la", "/usr/share/doc"},
		{"git", "clone", "https://example.org/a/b.git"},
		{"tar", "--exclude", "*.o", "-czf", "x.tar.gz", "dir"},
		{"grep", "-rn", "author", "."},
		{"sha256sum", "--check", "sums.txt"},
		{"echo", "basic training", "the bearer sang"},
	} {
		if got := Redact(argv); !slices.Equal(got, argv) {
			t.Errorf("Redact(%q) = %q", argv, got)
		}
	}
}

func TestRedactBoundsWhatItKeeps(t *testing.T) {
	argv := make([]string, 10_000)
	for i := range argv {
		argv[i] = strings.Repeat("é", 2000)
	}
	got := Redact(argv)
	if len(got) != mostArguments+1 || got[mostArguments] != "[9936 more arguments]" {
		t.Errorf("%d arguments are kept; the last is %q", len(got), got[len(got)-1])
	}
	if len(got[0]) > mostBytes+120 || !strings.HasSuffix(got[0], "… [4000 bytes, "+digestOf([]byte(argv[0]))+"]") {
		t.Errorf("a long argument is kept as %q", got[0])
	}
}

// TestCanaryNeverReachesTheLog puts the canary everywhere a request may have a secret.
func TestCanaryNeverReachesTheLog(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, dir, Options{})
	env := map[string]string{"HARMLESS_NAME": canary, "TOKEN": canary}
	for _, r := range []policy.Request{
		{Action: policy.ActionExec, Command: policy.Command{
			Argv: []string{"run", "--token", canary}, Env: env, Cwd: "/work", Stdin: []byte(canary),
		}},
		{Action: policy.ActionRun, Program: policy.Program{
			Language: "python", Code: "print('" + canary + "')", Inputs: []byte(`{"k":"` + canary + `"}`), Env: env,
		}},
	} {
		mustAppend(t, l, Record{Type: TypeDecision, Request: Describe(r)})
	}
	l.Close()
	data, err := os.ReadFile(filepath.Join(dir, fileName(1)))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(data), canary) {
		t.Errorf("the canary is in the log:\n%s", data)
	}
	for _, want := range []string{"HARMLESS_NAME", "TOKEN", `"stdin":{"bytes":18,"digest":"sha256:`, `"code":{"bytes":27`} {
		if !strings.Contains(string(data), want) {
			t.Errorf("%s is not in the log:\n%s", want, data)
		}
	}
}

func FuzzRedact(f *testing.F) {
	f.Add("--password", "x y=z")
	f.Add("Authorization: Bearer abc", "\xff\xfe")
	f.Fuzz(func(t *testing.T, a, b string) {
		got := Redact([]string{a, b, "--secret", canary, "k=v"})
		if len(got) != 5 || strings.Contains(strings.Join(got, "\n"), canary) && !strings.Contains(a+b, canary) {
			t.Errorf("Redact = %q", got)
		}
		if _, err := json.Marshal(got); err != nil {
			t.Error(err)
		}
	})
}

// A rule is passed over only where its pattern has nothing to find.
func TestRulesThatArePassedOverFindNothing(t *testing.T) {
	piece := rapid.OneOf(rapid.SampledFrom([]string{"password", "token", "pin", "sig", "-u", "--user", "--token", "bearer", "cookie", "authorization", "PGPASSWORD", "=", ":",
		" ", "\t", "\n", "\v", "\u00a0", "@", "a://", "://", "x", "abcdefghijklmnop", "AKIA", "ABCDEFGHIJKLMNOP", "ghp_", "glpat-", "xoxb-", "AIza", "npm_", "hf_", "sk-", "pk_",
		"eyJ", "abcdefgh", ".", "-----BEGIN ", "-----BEGIN", "PRIVATE KEY-----", "/", "+"}), rapid.StringN(0, 3, -1))
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(piece, 0, 5).Draw(t, "text"), "")
		for _, r := range rules {
			if !r.may(text) && r.pattern.MatchString(text) {
				t.Fatalf("%q is passed over by %s", text, r.pattern)
			}
		}
	})
}
