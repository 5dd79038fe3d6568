package python

import (
	"encoding/hex"
	"encoding/json/v2"
	"fmt"
	"strings"

	"github.com/sandboxd/sandboxd/policy"
)

// Compiled is the driver as an interpreter has compiled it. The zero one is none: each interpreter compiles the text, which takes as long as the rest of
// its own start does beyond that of a bare one.
//
// An interpreter executes it if it has the same magic number, by which Python itself tells whether a .pyc file is for it, and else the text. Whoever
// made it chose what is executed in the interpreters that it is handed to: take it only from an interpreter that has run nobody's code.
type Compiled struct {
	magic string
	code  []byte
}

// The bounds of what is taken for a compiled driver: a magic number is 2 bytes and a line end, and the code is no more than some times its text.
const (
	magicSize    = 4
	magicEnd     = "\r\n"
	mostCompiled = 1 << 20
)

// CompileProgram is a program whose value is for [ReadCompiled].
func CompileProgram() policy.Program {
	inputs, err := json.Marshal(driver)
	if err != nil {
		panic(err) // a constant
	}
	return policy.Program{Language: policy.LanguagePython, Inputs: inputs, Code: `import marshal
from importlib.util import MAGIC_NUMBER
_return = MAGIC_NUMBER.hex() + marshal.dumps(compile(inputs, "<string>", "exec", dont_inherit=True)).hex()
`}
}

// ReadCompiled takes the value of [CompileProgram].
func ReadCompiled(value []byte) (Compiled, error) {
	var text string
	if err := json.Unmarshal(value, &text); err != nil {
		return Compiled{}, fmt.Errorf("the compiled driver: %w", err)
	}
	data, err := hex.DecodeString(text)
	switch {
	case err != nil:
		return Compiled{}, fmt.Errorf("the compiled driver: %w", err)
	case len(data) <= magicSize || len(data) > mostCompiled || !strings.HasSuffix(string(data[:magicSize]), magicEnd):
		return Compiled{}, fmt.Errorf("the compiled driver: %d bytes, which aren't a magic number and code", len(data))
	}
	return Compiled{magic: string(data[:magicSize]), code: data[magicSize:]}, nil
}

// None says that there is no code.
func (c Compiled) None() bool { return len(c.code) == 0 }

// withText is what the bootstrap executes: magic number and code, then the text for all other interpreters.
func (c Compiled) withText(text string) string { return c.magic + string(c.code) + text }

// textAt is where the text begins.
func (c Compiled) textAt() int { return len(c.magic) + len(c.code) }
