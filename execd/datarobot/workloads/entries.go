package workloads

import (
	"bufio"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/sandboxd/sandboxd/execd"
	"github.com/sandboxd/sandboxd/execd/datarobot"
)

// entry is one entry of a log.
type entry struct {
	Timestamp string `json:"timestamp"`
	Level     string `json:"level"`
	Message   string `json:"message"`
	// value follows the message, when it is too long for memory.
	value *execd.Value
}

// The levels: the client takes ERROR for stderr, and all below for stdout.
const (
	levelInfo  = "INFO"
	levelError = "ERROR"
)

// pieceBytes is how long a message of several lines grows.
const pieceBytes = 64 << 10

// entriesOf is the log of a reply: stdout, stderr, what sandboxd adds to that, and the marker line last. Bytes that aren't UTF-8 become U+FFFD.
func entriesOf(r execd.Reply, seconds int64, at time.Time) iter.Seq[entry] {
	stamp := at.UTC().Format("2006-01-02T15:04:05.000000Z07:00")
	return func(yield func(entry) bool) {
		for _, stream := range []struct {
			text  *string
			raw   []byte
			level string
		}{{r.Stdout, r.StdoutBase64, levelInfo}, {r.Stderr, r.StderrBase64, levelError}} {
			text := ""
			switch {
			case stream.text != nil:
				text = *stream.text
			case stream.raw != nil:
				text = strings.ToValidUTF8(string(stream.raw), "\uFFFD")
			}
			for message := range messages(text, pieceBytes) {
				if !yield(entry{Timestamp: stamp, Level: stream.level, Message: message}) {
					return
				}
			}
		}
		for _, line := range notices(r, seconds) {
			if !yield(entry{Timestamp: stamp, Level: levelError, Message: line}) {
				return
			}
		}
		last := entry{Timestamp: stamp, Level: levelInfo, Message: datarobot.Marker, value: r.Value()}
		if last.value == nil {
			last.Message += markerText(r.PythonValue())
		}
		yield(last)
	}
}

// messages cuts a text at ends of lines, so that joined by line feeds they are the text again, but for line feeds at its end. The client drops line
// feeds at the end of each message: none has one, and so none ends with an empty line.
func messages(text string, most int) iter.Seq[string] {
	return func(yield func(string) bool) {
		text = strings.TrimRight(text, "\n")
		for text != "" {
			end := len(text)
			if end > most {
				// The first end of a line that isn't empty, from most on; a line is never torn.
				for from := most; ; from++ {
					i := strings.IndexByte(text[from:], '\n')
					if i < 0 {
						break
					}
					if from += i; text[from-1] != '\n' {
						end = from
						break
					}
				}
			}
			if !yield(text[:end]) {
				return
			}
			if end == len(text) {
				return
			}
			text = text[end+1:]
		}
	}
}

// markerText is a value for the marker line: ASCII without control characters, since the client ends a line at more of them than a line feed, some
// of which JSON leaves as they are in strings, and blanks between tokens.
func markerText(value []byte) string {
	if !slices.ContainsFunc(value, func(c byte) bool { return c < ' ' || c >= 0x7f }) {
		return string(value)
	}
	var out strings.Builder
	for len(value) > 0 {
		r, size := utf8.DecodeRune(value)
		value = value[size:]
		switch {
		case r < ' ':
			out.WriteByte(' ')
		case r < 0x7f:
			out.WriteByte(byte(r))
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&out, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	return out.String()
}

// mark is where an entry is in its file, and how severe.
type mark struct {
	Offset int64 `json:"offset"`
	Error  bool  `json:"error,omitempty"`
}

// between separates entries, in a file and in an answer.
const between = ",\n"

// writeEntries writes the elements of a JSON array, and says where each begins and how long they are together.
func writeEntries(to io.Writer, entries iter.Seq[entry]) (marks []mark, size int64, err error) {
	out := bufio.NewWriterSize(to, pieceBytes)
	for e := range entries {
		text, err := json.Marshal(e, jsontext.AllowInvalidUTF8(true))
		if err != nil {
			return nil, 0, fmt.Errorf("log: %w", err)
		}
		if len(marks) > 0 {
			size += int64(len(between))
			_, _ = out.WriteString(between) // Flush says what was wrong
		}
		marks = append(marks, mark{size, e.Level == levelError})
		if e.value != nil {
			text = text[:len(text)-len(`"}`)] // the message is the last member
		}
		size += int64(len(text))
		_, _ = out.Write(text)
		if e.value != nil {
			length, err := writeMarkerText(out, e.value.Python())
			if err != nil {
				return nil, 0, fmt.Errorf("log: %w", err)
			}
			size += length + int64(len(`"}`))
			_, _ = out.WriteString(`"}`)
		}
	}
	return marks, size, out.Flush()
}

// writeMarkerText writes [markerText] of a value that is read, as the inside of a string of JSON.
func writeMarkerText(to io.Writer, value io.Reader) (size int64, err error) {
	in, out := make([]byte, pieceBytes), make([]byte, 0, 2*pieceBytes)
	held := 0 // of a character that isn't whole
	for {
		n, err := value.Read(in[held:])
		n += held
		if held = 0; err == nil {
			held = begunRune(in[:n])
		}
		out = appendMarkerText(out[:0], in[:n-held])
		written, failed := to.Write(out)
		if size += int64(written); failed != nil {
			return size, failed
		}
		copy(in, in[n-held:n])
		switch {
		case errors.Is(err, io.EOF):
			return size, nil
		case err != nil:
			return size, err
		}
	}
}

// begunRune is how many bytes at the end of data begin a character and don't end it, 0..3.
func begunRune(data []byte) int {
	for n := 1; n <= min(utf8.UTFMax-1, len(data)); n++ {
		if tail := data[len(data)-n:]; utf8.RuneStart(tail[0]) {
			if utf8.FullRune(tail) {
				return 0
			}
			return n
		}
	}
	return 0
}

// appendMarkerText appends it for whole characters.
func appendMarkerText(out, value []byte) []byte {
	for len(value) > 0 {
		c := value[0]
		switch {
		case c == '"' || c == '\\':
			out = append(out, '\\', c)
			value = value[1:]
		case c < ' ':
			out = append(out, ' ')
			value = value[1:]
		case c < 0x7f:
			out = append(out, c)
			value = value[1:]
		default:
			r, size := utf8.DecodeRune(value)
			value = value[size:]
			if r > 0xffff {
				high, low := utf16.EncodeRune(r)
				out = fmt.Appendf(out, `\\u%04x\\u%04x`, high, low)
			} else {
				out = fmt.Appendf(out, `\\u%04x`, r)
			}
		}
	}
	return out
}
