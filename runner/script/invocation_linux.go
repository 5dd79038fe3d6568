package script

import (
	_ "embed"
	"encoding/binary"
	"fmt"
	"os"
	"strconv"

	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/runner/python"
)

//go:embed driver.js
var driver string

// bash reads the code whole before it runs a line of it, so that standard input and the code's own descriptors are not in each other's way. It has no
// start-up files.
const bash = `mapfile -d '' -u %d -t SANDBOXD_CODE; exec %[1]d<&-; eval "${SANDBOXD_CODE[0]}"`

// Node reads its driver by position, as Python does.
const node = `{const fs=require("fs"),d=Buffer.alloc(%d);fs.readSync(%d,d,0,d.length,0);fs.closeSync(%[2]d);require("vm").runInThisContext("(function(require){"+d+"\n})",{filename:"<driver>"})(require)}`

// Invocation is how p is run: argv, what its environment has besides, the descriptors that the child gets from extraFrom on, and our end of the
// result's pipe, for [ReadResult]. The caller closes extra once the child has them, and result.
func Invocation(p policy.Program, extraFrom int) (argv, env []string, extra []*os.File, result *os.File, err error) {
	parts := []string{p.Code, string(p.Inputs)}
	switch p.Language {
	case policy.LanguageBash:
		argv = []string{"bash", "--noprofile", "--norc", "-c", fmt.Sprintf(bash, extraFrom), "sandbox"}
		env = []string{"SANDBOXD_INPUTS_FD=" + strconv.Itoa(extraFrom+1), "SANDBOXD_RESULT_FD=" + strconv.Itoa(extraFrom+2)}
	case policy.LanguageNode:
		job := binary.BigEndian.AppendUint64(nil, uint64(len(p.Code)))
		parts = []string{driver, string(job) + p.Code + string(p.Inputs)}
		argv = []string{"node", "-e", fmt.Sprintf(node, len(driver), extraFrom), "--", "sandbox", strconv.Itoa(extraFrom + 1), strconv.Itoa(extraFrom + 2)}
	default:
		return nil, nil, nil, nil, fmt.Errorf("language %q has no driver here", p.Language)
	}
	defer func() {
		if err != nil {
			for _, file := range extra {
				file.Close()
			}
		}
	}()
	for i, content := range parts {
		file, err := python.Sealed("part"+strconv.Itoa(i), content)
		if err != nil {
			return nil, nil, extra, nil, err
		}
		extra = append(extra, file)
	}
	result, write, err := python.ResultPipe()
	if err != nil {
		return nil, nil, extra, nil, err
	}
	return argv, env, append(extra, write), result, nil
}

// ReadResult reads what a program of that language sent.
func ReadResult(language string, r *os.File, limit int64) python.Result {
	if language == policy.LanguageBash {
		return python.ReadText(r, limit)
	}
	return python.ReadResult(r, limit)
}
