package dropin

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/runner/python"
)

// The variables of the contract. The two files are ours: the kernel takes at most 128 KiB in one variable.
const (
	codeVariable       = "DR_SANDBOX_CODE_B64"
	codeFileVariable   = "DR_SANDBOX_CODE_FILE"
	inputsVariable     = "DR_SANDBOX_INPUTS_B64"
	inputsFileVariable = "DR_SANDBOX_INPUTS_FILE"
	timeoutVariable    = "DR_SANDBOX_TIMEOUT_SECS"
	procsVariable      = "DR_SANDBOX_MAX_PROCS"
)

// What is in force where the contract says nothing, or what can't be.
const (
	defaultTimeout = 3600
	longestTimeout = 86400
	defaultProcs   = 4096
)

// contract is what the environment asks for.
type contract struct {
	program policy.Program
	timeout time.Duration
	procs   uint64
	// malformed says that the inputs aren't JSON. Python says so, in its own words, and nothing runs.
	malformed bool
}

// badContract is a contract that can't be met. Its text is what the reference writes, or ends with.
type badContract struct{ text string }

func (e *badContract) Error() string { return e.text }

// traceback is a refusal for which the reference dies of an exception.
func traceback(format string, args ...any) error {
	return &badContract{"Traceback (most recent call last):\n" + fmt.Sprintf(format, args...)}
}

// readContract reads the environment.
func readContract(getenv func(string) string) (contract, error) {
	c := contract{program: policy.Program{Language: policy.LanguagePython}}
	code, err := part(getenv, codeVariable, codeFileVariable)
	switch {
	case err != nil:
		return c, err
	case code == nil:
		return c, &badContract{codeVariable + " not set"}
	case !utf8.Valid(code):
		return c, traceback("UnicodeDecodeError: 'utf-8' codec can't decode the code in %s", codeVariable)
	}
	c.program.Code = strings.TrimPrefix(string(code), "\uFEFF")
	inputs, err := part(getenv, inputsVariable, inputsFileVariable)
	switch {
	case err != nil:
		return c, err
	case inputs == nil:
		inputs = []byte("{}")
	case !utf8.Valid(inputs):
		return c, traceback("UnicodeDecodeError: 'utf-8' codec can't decode the inputs in %s", inputsVariable)
	}
	c.program.Inputs = inputs
	finite, _ := python.WithoutNonFinite(inputs)
	if err := policy.CheckPythonJSON("inputs", finite); errors.Is(err, policy.ErrNotJSON) {
		c.malformed = true
	} else if err != nil {
		return c, traceback("ValueError: %v", err)
	}
	c.timeout = time.Duration(clamp(integer(getenv(timeoutVariable), defaultTimeout), longestTimeout)) * time.Second
	c.procs = uint64(clamp(integer(getenv(procsVariable), defaultProcs), defaultProcs))
	return c, nil
}

// part is what a variable or the file of another holds; nil when neither says anything.
func part(getenv func(string) string, variable, file string) ([]byte, error) {
	if path := getenv(file); path != "" {
		if getenv(variable) != "" {
			return nil, &badContract{variable + " and " + file + " are both set"}
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, &badContract{file + ": " + err.Error()}
		}
		return data, nil
	}
	text := getenv(variable)
	if text == "" {
		return nil, nil
	}
	text = strings.NewReplacer("\n", "", "\r", "").Replace(text)
	bad := strings.IndexFunc(text, func(r rune) bool {
		return r != '+' && r != '/' && r != '=' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	})
	if bad >= 0 || text == "" {
		return nil, traceback("binascii.Error: Only base64 data is allowed: %s", variable)
	}
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, traceback("binascii.Error: Incorrect padding: %s", variable)
	}
	return data, nil
}

// integer is what Python's int makes of a text, as far as digits are ASCII; what it refuses is the default.
func integer(text string, otherwise int64) int64 {
	text = strings.TrimSpace(text)
	digits := strings.TrimPrefix(text, "+")
	if digits == text {
		digits = strings.TrimPrefix(text, "-")
	}
	negative := strings.HasPrefix(text, "-")
	if digits == "" || strings.HasPrefix(digits, "_") || strings.HasSuffix(digits, "_") || strings.Contains(digits, "__") || strings.Trim(digits, "0123456789_") != "" {
		return otherwise
	}
	number, err := strconv.ParseInt(strings.ReplaceAll(digits, "_", ""), 10, 64)
	switch {
	case err != nil:
		number = math.MaxInt64
	case negative:
		number = -number
	}
	return number
}

// clamp keeps a limit within 1 and most: none, or one that can't be, is the most that there is.
func clamp(asked, most int64) int64 {
	if asked < 1 || asked > most {
		return most
	}
	return asked
}
