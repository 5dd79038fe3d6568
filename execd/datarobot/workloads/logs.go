package workloads

import (
	"encoding/json/v2"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

// logQuery is which entries of a log are asked for. Without any parameter it is all of them.
type logQuery struct {
	offset int
	limit  int // 0: all
	// errors asks for errors only.
	errors             bool
	start, end         time.Time
	includes, excludes []string
	// none: by a span or a trace, of which no entry has one.
	none bool
	raw  url.Values
}

// severities are the levels that may be asked for: whether an entry of ours below ERROR has at least that level.
var severities = map[string]bool{
	"TRACE": true, "DEBUG": true, "INFO": true, "WARN": false, "WARNING": false, "ERROR": false, "CRITICAL": false, "FATAL": false,
}

// parseLogQuery reads the parameters. The error is a *fault.
func parseLogQuery(raw string) (q logQuery, err error) {
	if q.raw, err = url.ParseQuery(raw); err != nil {
		return q, &fault{http.StatusBadRequest, "query", err.Error()}
	}
	bad := func(name, want string) error {
		return &fault{http.StatusBadRequest, "query." + cut(name), strconv.Quote(cut(q.raw.Get(name))) + ": want " + want}
	}
	for name, values := range q.raw {
		value := values[0]
		if len(values) > 1 && name != "includes" && name != "excludes" {
			return q, &fault{http.StatusBadRequest, "query." + cut(name), "given more than once"}
		}
		var unread error
		switch name {
		case "limit":
			if q.limit, unread = strconv.Atoi(value); unread != nil || q.limit < 1 {
				return q, bad(name, "a number above 0")
			}
		case "offset":
			if q.offset, unread = strconv.Atoi(value); unread != nil || q.offset < 0 {
				return q, bad(name, "a number, 0 or above")
			}
		case "level":
			info, known := severities[strings.ToUpper(value)]
			if !known {
				return q, bad(name, "a level, such as INFO or ERROR")
			}
			q.errors = !info
		case "startTime":
			if q.start, unread = time.Parse(time.RFC3339Nano, value); unread != nil {
				return q, bad(name, "a time, such as 2026-01-02T15:04:05Z")
			}
		case "endTime":
			if q.end, unread = time.Parse(time.RFC3339Nano, value); unread != nil {
				return q, bad(name, "a time, such as 2026-01-02T15:04:05Z")
			}
		case "includes":
			q.includes = values
		case "excludes":
			q.excludes = values
		case "spanId", "traceId":
			q.none = true
		default:
			return q, &fault{http.StatusBadRequest, "query." + cut(name), "unknown parameter"}
		}
	}
	return q, nil
}

// getLogs answers a page of a log. Before the end the log is empty: output is kept when nobody can write more of it.
func (f *Facade) getLogs(w http.ResponseWriter, r *http.Request, id string) {
	found := f.find(id)
	if found == nil {
		f.missing(w)
		return
	}
	q, err := parseLogQuery(r.URL.RawQuery)
	if err != nil {
		f.fail(w, asFailure(err))
		return
	}
	now := found.now()
	page := logPage{query: q, url: url.URL{Scheme: "http", Host: r.Host, Path: r.URL.Path}}
	if now.how != nil && now.how.Failure == nil {
		file, err := os.Open(f.store.log(id))
		if err != nil {
			if f.find(id) == nil { // deleted meanwhile
				f.missing(w)
				return
			}
			f.fail(w, failure{Status: http.StatusInternalServerError, Code: "INFRA", Message: "the log can't be read"})
			return
		}
		defer file.Close()
		page.file, page.marks, page.size, page.ended = file, now.marks, now.size, now.ended
	}
	if err := page.choose(); err != nil {
		f.config.Logger.Error("workloads", "what", "a log can't be read", "id", id, "error", err)
		f.fail(w, failure{Status: http.StatusInternalServerError, Code: "INFRA", Message: "the log can't be read"})
		return
	}
	w.Header().Set("Content-Type", "application/json")
	out := &boundedWriter{w, http.NewResponseController(w), f.config.WriteTimeout}
	if err := page.write(out); err != nil {
		panic(http.ErrAbortHandler) // the client is gone, or must see that this isn't all
	}
	_ = out.connection.SetWriteDeadline(time.Time{})
}

// logPage is the part of a log that an answer has.
type logPage struct {
	query logQuery
	url   url.URL
	file  *os.File
	marks []mark
	size  int64
	ended time.Time
	// chosen are the entries that are asked for, by number; of them, the page's are from first to last.
	chosen      []int
	first, last int
}

// choose finds the entries that are asked for.
func (p *logPage) choose() error {
	q := p.query
	for i, mark := range p.marks {
		if q.none || q.errors && !mark.Error || !q.start.IsZero() && p.ended.Before(q.start) || !q.end.IsZero() && p.ended.After(q.end) {
			continue
		}
		if len(q.includes)+len(q.excludes) > 0 {
			message, err := p.message(i)
			if err != nil {
				return err
			}
			if !q.has(message) {
				continue
			}
		}
		p.chosen = append(p.chosen, i)
	}
	p.first = min(q.offset, len(p.chosen))
	p.last = len(p.chosen)
	if q.limit > 0 {
		p.last = min(p.first+min(q.limit, len(p.chosen)), len(p.chosen))
	}
	return nil
}

// has says whether a message has all texts that it must and none that it must not.
func (q logQuery) has(message string) bool {
	for _, text := range q.includes {
		if !strings.Contains(message, text) {
			return false
		}
	}
	for _, text := range q.excludes {
		if strings.Contains(message, text) {
			return false
		}
	}
	return true
}

// span is where an entry is in the file.
func (p *logPage) span(i int) (from, length int64) {
	from = p.marks[i].Offset
	if i+1 < len(p.marks) {
		return from, p.marks[i+1].Offset - int64(len(between)) - from
	}
	return from, p.size - from
}

func (p *logPage) message(i int) (string, error) {
	from, length := p.span(i)
	text := make([]byte, length)
	if _, err := p.file.ReadAt(text, from); err != nil {
		return "", err
	}
	var e entry
	err := json.Unmarshal(text, &e)
	return e.Message, err
}

// write writes the answer, the entries straight from the file.
func (p *logPage) write(to io.Writer) error {
	before := max(0, p.first-p.query.limit)
	if p.query.limit == 0 {
		before = 0
	}
	if _, err := fmt.Fprintf(to, `{"count":%d,"next":%s,"previous":%s,"data":[`, len(p.chosen), p.link(p.last, p.last < len(p.chosen)),
		p.link(before, p.first > 0)); err != nil {
		return err
	}
	for n, i := range p.chosen[p.first:p.last] {
		separator := ""
		if n > 0 {
			separator = between
		}
		from, length := p.span(i)
		if _, err := io.Copy(to, io.MultiReader(strings.NewReader(separator), io.NewSectionReader(p.file, from, length))); err != nil {
			return err
		}
	}
	_, err := io.WriteString(to, "]}")
	return err
}

// link is the absolute URL of another page, as JSON; null where there is none.
func (p *logPage) link(offset int, there bool) string {
	if !there {
		return "null"
	}
	values := url.Values{}
	for name, list := range p.query.raw {
		values[name] = list
	}
	values.Set("offset", strconv.Itoa(offset))
	at := p.url
	at.RawQuery = values.Encode()
	text, err := json.Marshal(at.String())
	if err != nil {
		return "null" // a Host that isn't text
	}
	return string(text)
}

// boundedWriter bounds each write: a client that doesn't read must not hold a file for ever.
type boundedWriter struct {
	http.ResponseWriter
	connection *http.ResponseController
	bound      time.Duration
}

func (w *boundedWriter) Write(data []byte) (int, error) {
	_ = w.connection.SetWriteDeadline(time.Now().Add(w.bound)) // a recorder in a test has none
	return w.ResponseWriter.Write(data)
}
