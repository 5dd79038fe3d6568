package opensandbox

import (
	"fmt"
	"maps"
	"slices"
)

// textPlain is the media type that every result has; some clients look for it under "text".
const textPlain = "text/plain"

// count sends the number of a cell in its context.
func (s *stream) count(number uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.head("execution_count")
	s.out = append(appendInt(append(s.out, `,"execution_count":`...), int64(number)), "}\n\n"...)
	s.flush()
}

// result sends a result of a cell. What would make it longer than an event may be is left out, the longest first, and stderr says so.
func (s *stream) result(results map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	results = maps.Clone(results)
	if text, ok := results[textPlain]; ok {
		results["text"] = text
	}
	for resultSize(results) > mostFrame {
		longest, size := "", -1
		for _, kind := range slices.Sorted(maps.Keys(results)) {
			if n := len(results[kind]); n > size {
				longest, size = kind, n
			}
		}
		delete(results, longest)
		s.text("stderr", fmt.Appendf(nil, "sandboxd: %.100s of %d bytes is left out, which is more than an event may have", longest, size))
	}
	if len(results) == 0 {
		return
	}
	s.head("result")
	s.out = append(s.out, `,"results":{`...)
	for i, kind := range slices.Sorted(maps.Keys(results)) {
		if i > 0 {
			s.out = append(s.out, ',')
		}
		s.out = append(appendText(s.out, []byte(kind)), ':')
		s.out = appendText(s.out, []byte(results[kind]))
	}
	s.out = append(s.out, "}}\n\n"...)
	s.flush()
}

// resultSize is at most how long the event of a result is.
func resultSize(results map[string]string) int {
	size := 256
	for kind, text := range results {
		size += encodedSize([]byte(kind)) + encodedSize([]byte(text)) + len(`"":"",`)
	}
	return size
}

// finishCell is finish for a cell.
func (s *stream) finishCell(e cellEnding) {
	last := func() { s.failed(e.name, e.value, e.traceback) }
	if e.name == "" {
		last = func() { s.complete(e.duration) }
	}
	s.end(e.line, last)
}
