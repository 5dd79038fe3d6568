package audit

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/sandboxd/sandboxd/policy"
)

// redacted stands where something secret was. No rule takes it apart when it comes upon it.
const redacted = "<redacted>"

// What is kept of a command line: arguments, and bytes of each.
const (
	mostArguments = 64
	mostBytes     = 256
)

// secretWord is in the name of a flag, variable, header or parameter whose value is secret.
const secretWord = `(?:pass(?:word|wd|phrase|code)?|pwd|secret|token|credentials?|api[-_.]?key|access[-_.]?key|private[-_.]?key|secret[-_.]?key|signing[-_.]?key|encryption[-_.]?key|auth|authorization|bearer|cookie|session(?:[-_.]?id)?|signature|sig|jwt|otp|pin)`

// plainWord means a secret whatever letters stand before it.
const plainWord = `(?:password|passwd|passphrase|secret|token|api_?key|access_?key|secret_?key|private_?key|credentials?)`

var (
	// secretFlag is a flag whose next argument is the secret: --password x, -token x.
	secretFlag = regexp.MustCompile(`(?i)^--?(?:(?:[a-z0-9]+[-_.])*` + secretWord + `|[a-z0-9_.-]*` + plainWord + `)$`)
	// userFlag is a flag whose next argument may be user:password, as curl and wget have it.
	userFlag = regexp.MustCompile(`^(?:-u|-U|--user|--proxy-user)$`)
)

// rule finds a secret in the middle of text; what the first group of pattern holds is kept. It has nothing to find in a text that has none of
// the characters of needs, or fewer bytes than least: most arguments are passed over for that, at a hundredth of the price.
type rule struct {
	pattern, with, needs string
	least                int
}

const (
	blanks = "\t\n\f\r " // \s
	gives  = ":="
)

// rules are tried in this order, each on what the one before left.
var rules = compile([]rule{
	{`(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|$)`, redacted, " ", 0},
	// scheme://user:password@host, and scheme://token@host
	{`(?i)\b([a-z][a-z0-9+.-]*://)[^\s/@"'<>?#]+@`, `${1}` + redacted + `@`, "@", 0},
	// Authorization headers, whatever the scheme; a bearer wherever it stands
	{`(?i)\b((?:proxy-)?authorization["']?\s*[:=]\s*["']?)[^"'\r\n]+`, `${1}` + redacted, gives, 0},
	{`(?i)\b(bearer\s+)[a-z0-9._~+/=-]{6,}`, `${1}` + redacted, blanks, 0},
	{`(?i)\b((?:set-)?cookie["']?\s*[:=]\s*["']?)[^"'\r\n]+`, `${1}` + redacted, gives, 0},
	// name=value and name: value, quoted or not; the name may have more words around the secret one
	{`(?i)((?:^|[^a-z0-9])(?:[a-z0-9]+[-_.])*` + secretWord + `(?:[-_.][a-z0-9]+)*["']?\s*(?:=|:)\s*)(?:"[^"]*"|'[^']*'|[^\s&;,"'|)}\]]+)`, `${1}` + redacted, gives, 0},
	// words that mean a secret at the end of any name: PGPASSWORD=, dbPassword=, accessToken:
	{`(?i)(` + plainWord + `["']?\s*(?:=|:)\s*)(?:"[^"]*"|'[^']*'|[^\s&;,"'|)}\]]+)`, `${1}` + redacted, gives, 0},
	// a secret flag and its value within one argument, as in sh -c 'tool --password x'
	{`(?i)((?:^|\s)--?(?:[a-z0-9]+[-_.])*` + secretWord + `\s+)(?:"[^"]*"|'[^']*'|[^\s"'-][^\s"']*)`, `${1}` + redacted, blanks, 0},
	{`((?:^|\s)(?:-u|--user)\s+)["']?[^\s:"']+:[^\s"']+["']?`, `${1}` + redacted, blanks, 0},
	// keys that are known by their own look: AWS, GitHub, GitLab, Slack, Google, Stripe and the sk- family, npm, JWT
	{`\b(?:AKIA|ASIA|AROA|AIDA|AGPA|ANPA)[A-Z0-9]{16}\b`, redacted, "", 20},
	{`\b(?:gh[pousr]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{16,}|glpat-[A-Za-z0-9_-]{16,}|xox[abeoprs]-[A-Za-z0-9-]{10,}|AIza[A-Za-z0-9_-]{30,}|npm_[A-Za-z0-9]{30,}|hf_[A-Za-z0-9]{20,})`, redacted, "", 15},
	{`\b(?:sk|pk|rk)[-_](?:[A-Za-z0-9]+[-_])*[A-Za-z0-9]{16,}\b`, redacted, "", 19},
	{`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]*)?`, redacted, "", 13},
	// an AWS secret key: forty characters of base64 on their own
	{`(^|[^A-Za-z0-9+/=])[A-Za-z0-9+/]{40}($|[^A-Za-z0-9+/=])`, `${1}` + redacted + `${2}`, "", 40},
})

type compiledRule struct {
	rule
	pattern *regexp.Regexp
}

// may says whether the text can have what the rule finds.
func (r compiledRule) may(text string) bool {
	return len(text) >= r.least && (r.needs == "" || strings.ContainsAny(text, r.needs))
}

func compile(rules []rule) []compiledRule {
	compiled := make([]compiledRule, len(rules))
	for i, r := range rules {
		compiled[i] = compiledRule{r, regexp.MustCompile(r.pattern)}
	}
	return compiled
}

// Redact gives a command line as the record may hold it: values of secret-looking names and things that look like keys are replaced, long
// arguments are cut and long lists too. It errs towards taking out too much; the request's digest still tells two commands apart.
func Redact(argv []string) []string {
	var kept []string
	for i, argument := range argv {
		if i == mostArguments {
			return append(kept, fmt.Sprintf("[%d more arguments]", len(argv)-i))
		}
		switch {
		case i > 0 && secretFlag.MatchString(argv[i-1]):
			kept = append(kept, redacted)
		case i > 0 && userFlag.MatchString(argv[i-1]) && strings.Contains(argument, ":"):
			kept = append(kept, redacted)
		default:
			kept = append(kept, redactText(argument))
		}
	}
	return kept
}

// redactText takes secrets out of one argument, then cuts it. The patterns see no more than the part that could be kept and some bytes
// behind it, so that the cost doesn't grow with what a caller sends.
func redactText(text string) string {
	const seen = 16 * mostBytes
	whole := text
	if len(text) > seen {
		text = text[:seen]
	}
	text = strings.ToValidUTF8(text, "\uFFFD")
	for _, r := range rules {
		if r.may(text) {
			text = r.pattern.ReplaceAllString(text, r.with)
		}
	}
	if len(whole) <= mostBytes {
		return text
	}
	keep := min(mostBytes, len(text))
	if len(whole) > seen {
		// What the cut went through may be half a secret that no pattern knows.
		keep = min(keep, max(0, len(text)-mostBytes))
	}
	text = strings.ToValidUTF8(text[:keep], "")
	return fmt.Sprintf("%s… [%d bytes, %s]", text, len(whole), digestOf([]byte(whole)))
}

// Describe gives a request as the record may hold it.
func Describe(r policy.Request) *Request {
	described := &Request{Action: r.Action, Digest: policy.Digest(r)}
	if r.Image != (policy.Image{}) {
		described.Image = &r.Image
	}
	env := r.Command.Env
	switch r.Action {
	case policy.ActionRun:
		env = r.Program.Env
		described.Cwd = r.Program.Cwd
		described.Language = r.Program.Language
		described.Code = blob([]byte(r.Program.Code))
		if inputs := r.Program.InputsBulk(); inputs.Bytes > 0 {
			described.Inputs = &Blob{Bytes: inputs.Bytes, Digest: inputs.Digest()}
		}
	case policy.ActionFile:
		described.File = &File{Operation: r.File.Operation, Path: redactText(r.File.Path), Mode: r.File.Mode, Follow: r.File.Follow, To: redactText(r.File.To)}
	default:
		described.Argv = Redact(r.Command.Argv)
		described.Cwd = r.Command.Cwd
		described.Stdin = blob(r.Command.Stdin)
	}
	described.Cwd = redactText(described.Cwd)
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if len(described.EnvNames) == mostArguments {
			described.EnvNames = append(described.EnvNames, fmt.Sprintf("[%d more names]", len(env)-mostArguments))
			break
		}
		described.EnvNames = append(described.EnvNames, redactText(name))
	}
	return described
}

// blob stands for bytes; nil when there are none.
func blob(data []byte) *Blob {
	if len(data) == 0 {
		return nil
	}
	return &Blob{Bytes: int64(len(data)), Digest: digestOf(data)}
}

// Digest is the digest of bytes as the record has it.
func Digest(data []byte) string { return digestOf(data) }
