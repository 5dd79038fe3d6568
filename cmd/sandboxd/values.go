package main

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/sandboxd/sandboxd/policy"
)

// specBytes bounds a JSON file that a flag names.
const specBytes = 1 << 20

// jsonOrFile reads the value of a flag: JSON itself, @FILE, or the path of a file.
func jsonOrFile(flag, value string) ([]byte, error) {
	if path, ok := strings.CutPrefix(value, "@"); ok {
		return readFile(flag, path)
	}
	switch trimmed := strings.TrimSpace(value); {
	case trimmed == "":
		return nil, fmt.Errorf("%s is empty: want JSON, @FILE or a path", flag)
	case jsontext.Value(trimmed).IsValid(), strings.HasPrefix(trimmed, "{"), strings.HasPrefix(trimmed, "["):
		return []byte(trimmed), nil // not valid, but meant to be: the parser says where
	}
	return readFile(flag, value)
}

func readFile(flag, path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	defer file.Close()
	return readAtMost(flag, file, specBytes)
}

func readAtMost(what string, r io.Reader, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("%s has more than %d bytes", what, limit)
	}
	return data, nil
}

// spec is what a request asks besides its command.
type spec struct {
	securityContext, network, limits string
	timeout                          time.Duration
	sandbox, cwd, image              string
	env, networkAllow                list
}

func (s *spec) register(f *flagSet) {
	f.StringVar(&s.securityContext, "security-context", "", "Kubernetes container securityContext, as `JSON`, @FILE or a path")
	f.StringVar(&s.network, "network", "", "network spec, as `JSON`, @FILE or a path")
	f.Var(&s.networkAllow, "network-allow", "allow `TARGET[:PORT,...]` and deny the rest: a name, *.name, an address or a prefix; again for more")
	f.StringVar(&s.limits, "limits", "", "limits, as `JSON`, @FILE or a path")
	f.Func("timeout", "wall-clock `time`, such as 5s; the same as limits.timeoutSeconds", s.setTimeout)
	f.Var(&s.env, "env", "`NAME=value` in the environment; again for more")
	f.StringVar(&s.cwd, "cwd", "", "working `directory` in the sandbox (/work unless given)")
	f.StringVar(&s.image, "image", "", "`name` of the image that the root is made from (the host's own system directories unless given)")
	f.StringVar(&s.sandbox, "sandbox", "", "`id` of a sandbox that the daemon keeps; needs --socket")
}

func (s *spec) setTimeout(value string) error {
	timeout, err := time.ParseDuration(value)
	if err != nil || timeout <= 0 {
		return errors.New("want a time above 0 with its unit, such as 5s or 1m30s")
	}
	s.timeout = timeout
	return nil
}

// common are the fields that the bodies of exec and run share.
type common struct {
	Sandbox         string         `json:"sandbox,omitzero"`
	Image           string         `json:"image,omitzero"`
	SecurityContext jsontext.Value `json:"securityContext,omitzero"`
	Network         jsontext.Value `json:"network,omitzero"`
	Limits          jsontext.Value `json:"limits,omitzero"`
	Stream          bool           `json:"stream,omitzero"`
	ExplainDenials  bool           `json:"explainDenials,omitzero"`
}

// common reads what the flags say. Each value is parsed here already, so that an error names the flag.
func (s *spec) common() (common, error) {
	body := common{Sandbox: s.sandbox, Image: s.image}
	if s.securityContext != "" {
		data, err := jsonOrFile("--security-context", s.securityContext)
		if err != nil {
			return body, err
		}
		if _, err := policy.ParseSecurityContext(data); err != nil {
			return body, fmt.Errorf("--security-context: %w", err)
		}
		body.SecurityContext = data
	}
	network, err := s.parseNetwork()
	if err != nil {
		return body, err
	}
	body.Network = network
	limits, err := s.parseLimits()
	if err != nil {
		return body, err
	}
	if limits != (policy.Limits{}) {
		body.Limits, err = json.Marshal(limits)
	}
	return body, err
}

func (s *spec) parseLimits() (policy.Limits, error) {
	var limits policy.Limits
	if s.limits != "" {
		data, err := jsonOrFile("--limits", s.limits)
		if err != nil {
			return limits, err
		}
		if limits, err = policy.ParseLimits(data); err != nil {
			return limits, fmt.Errorf("--limits: %w", err)
		}
	}
	switch {
	case s.timeout > 0 && limits.TimeoutSeconds != 0:
		return limits, errors.New("--timeout and limits.timeoutSeconds say the same: give one of them")
	case s.timeout > 0:
		limits.TimeoutSeconds = s.timeout.Seconds()
	}
	return limits, nil
}

// environment makes a map of NAME=value. Nothing of our own environment is passed on.
func (s *spec) environment() (map[string]string, error) {
	if len(s.env) == 0 {
		return nil, nil
	}
	env := map[string]string{}
	for _, pair := range s.env {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("--env %s: want NAME=value; nothing is taken from the caller's environment", pair)
		}
		if _, twice := env[name]; twice {
			return nil, fmt.Errorf("--env %s is given twice", name)
		}
		env[name] = value
	}
	return env, nil
}
