package script

import (
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
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
//
// Inputs that are elsewhere come by a pipe: job is its other end, for [WriteJob] once the program is released. Without them it is nil.
func Invocation(p policy.Program, extraFrom int) (argv, env []string, extra []*os.File, job, result *os.File, err error) {
	parts := []string{p.Code, string(p.Inputs)}
	switch p.Language {
	case policy.LanguageBash:
		argv = []string{"bash", "--noprofile", "--norc", "-c", fmt.Sprintf(bash, extraFrom), "sandbox"}
		env = []string{"SANDBOXD_INPUTS_FD=" + strconv.Itoa(extraFrom+1), "SANDBOXD_RESULT_FD=" + strconv.Itoa(extraFrom+2)}
	case policy.LanguageNode:
		parts = []string{driver, string(head(p)) + string(p.Inputs)}
		argv = []string{"node", "-e", fmt.Sprintf(node, len(driver), extraFrom), "--", "sandbox", strconv.Itoa(extraFrom + 1), strconv.Itoa(extraFrom + 2)}
	default:
		return nil, nil, nil, nil, nil, fmt.Errorf("language %q has no driver here", p.Language)
	}
	defer func() {
		if err != nil {
			for _, file := range extra {
				file.Close()
			}
			if job != nil {
				job.Close()
			}
		}
	}()
	for i, content := range parts {
		var file *os.File
		if i > 0 && p.Bulk != nil {
			file, job, err = python.JobPipe()
		} else {
			file, err = python.Sealed("part"+strconv.Itoa(i), content)
		}
		if err != nil {
			return nil, nil, extra, job, nil, err
		}
		extra = append(extra, file)
	}
	result, write, err := python.ResultPipe()
	if err != nil {
		return nil, nil, extra, job, nil, err
	}
	return argv, env, append(extra, write), job, result, nil
}

// head is what the job of a program has before its inputs.
func head(p policy.Program) []byte {
	if p.Language != policy.LanguageNode {
		return nil
	}
	return append(binary.BigEndian.AppendUint64(nil, uint64(len(p.Code))), p.Code...)
}

// WriteJob hands inputs over that were elsewhere, and closes to. It returns when all is read, or nobody is left to read it, or to is closed.
func WriteJob(to *os.File, p policy.Program, inputs io.Reader) error {
	_, err := to.Write(head(p))
	if err == nil {
		_, err = io.Copy(to, inputs)
	}
	return errors.Join(err, to.Close())
}

// ReadLong is [ReadResult] for a value of which no more than short bytes are kept in memory, as [python.ReadLong] has it.
func ReadLong(language string, r *os.File, limit, short int64, to io.Writer) python.Result {
	if language == policy.LanguageBash {
		return python.ReadLongText(r, limit, short, to)
	}
	return python.ReadLong(r, limit, short, to)
}

// ReadResult reads what a program of that language sent.
func ReadResult(language string, r *os.File, limit int64) python.Result {
	if language == policy.LanguageBash {
		return python.ReadText(r, limit)
	}
	return python.ReadResult(r, limit)
}
