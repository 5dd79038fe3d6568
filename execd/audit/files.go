package audit

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// logFile is one file of the log: first is the sequence number in its name.
type logFile struct {
	path  string
	first int64
}

func fileName(first int64) string { return fmt.Sprintf("audit-%012d.jsonl", first) }

// listFiles finds the log's files in order. A name that begins like one of ours and isn't is an error: a log with a file that is passed over
// would verify.
func listFiles(dir string) ([]logFile, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var files []logFile
	for _, entry := range entries {
		digits, ours := strings.CutPrefix(entry.Name(), "audit-")
		if !ours {
			continue
		}
		first, err := strconv.ParseInt(strings.TrimSuffix(digits, ".jsonl"), 10, 64)
		if err != nil || entry.Name() != fileName(first) || !entry.Type().IsRegular() {
			return nil, fmt.Errorf("%s: not a file of the log", filepath.Join(dir, entry.Name()))
		}
		files = append(files, logFile{path: filepath.Join(dir, entry.Name()), first: first})
	}
	slices.SortFunc(files, func(a, b logFile) int { return cmp.Compare(a.first, b.first) })
	return files, nil
}

// errStop ends a scan early without an error.
var errStop = errors.New("stop")

// scan calls visit with every whole line of a file, its newline taken off, and says what bytes follow the last newline.
func scan(path string, visit func(line []byte) error) (tail []byte, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	reader := bufio.NewReaderSize(file, maxLine)
	for {
		line, err := reader.ReadSlice('\n')
		switch {
		case err == nil:
			if err := visit(line[:len(line)-1]); err != nil {
				return nil, err
			}
		case errors.Is(err, io.EOF):
			return bytes.Clone(line), nil
		case errors.Is(err, bufio.ErrBufferFull):
			return nil, fmt.Errorf("%s: a line of more than %d bytes", path, maxLine)
		default:
			return nil, err
		}
	}
}

// scanBack calls visit with every whole line of a file from the last to the first, and gives the bytes behind the last newline. Opening a long
// log reads no more of it than it needs.
func scanBack(path string, visit func(line []byte) error) (tail []byte, err error) {
	const block = 64 << 10
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	// held are the bytes from at on whose line isn't delivered.
	var held []byte
	for at, last := info.Size(), true; ; {
		newline := bytes.LastIndexByte(held, '\n')
		if newline < 0 && at > 0 {
			if len(held) > maxLine {
				return nil, fmt.Errorf("%s: a line of more than %d bytes", path, maxLine)
			}
			more := make([]byte, min(block, at), min(block, at)+int64(len(held)))
			at -= int64(len(more))
			if _, err := file.ReadAt(more, at); err != nil {
				return nil, err
			}
			held = append(more, held...)
			continue
		}
		line := held[newline+1:]
		switch {
		case last:
			tail, last = bytes.Clone(line), false
		default:
			if err := visit(line); err != nil {
				return tail, err
			}
		}
		if newline < 0 {
			return tail, nil
		}
		held = held[:newline]
	}
}

// syncDir makes a directory's entries durable: without it a new file may be gone after a crash although its data was synced.
func syncDir(dir string) error {
	file, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer file.Close()
	return file.Sync()
}
