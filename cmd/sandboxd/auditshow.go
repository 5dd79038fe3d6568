package main

import (
	"context"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/sandboxd/sandboxd/execd"
	"github.com/sandboxd/sandboxd/execd/audit"
)

// recordSource is where records come from: the parameters of GET /v1/audit, asked of a daemon or of files.
type recordSource struct {
	values url.Values
	client *client
	dir    string
}

// recordFlags are the flags of show and tail.
type recordFlags struct {
	socket, state string
	asJSON        bool
	texts         map[string]*string
}

func (r *recordFlags) register(f *flagSet, names ...string) {
	f.StringVar(&r.socket, "socket", "", "`path` of a daemon's socket, which is asked in place of files")
	f.StringVar(&r.state, "state", "", "state `directory` whose log it is, where DIR isn't given")
	f.BoolVar(&r.asJSON, "json", false, "print records as they are in the log")
	about := map[string]string{
		"from": "first record, by its `number`", "to": "last record, by its `number`",
		"since": "`time` (RFC 3339) before which records aren't wanted", "until": "`time` (RFC 3339) from which on they aren't",
		"exec": "`id` of an exec", "sandbox": "`id` of a sandbox", "decision": "`id` of a decision", "type": "`type` of record, such as decision, release, outcome, checkpoint",
	}
	r.texts = map[string]*string{}
	for _, name := range names {
		r.texts[name] = f.String(name, "", about[name])
	}
}

// open finds where the records are. The parameters are checked by the API's own parser.
func (r *recordFlags) open(p *program, args []string) (*recordSource, error) {
	from := &recordSource{values: url.Values{}}
	for name, text := range r.texts {
		if *text != "" {
			from.values.Set(name, *text)
		}
	}
	if _, err := execd.ParseAuditQuery(from.values); err != nil {
		return nil, flagError(err)
	}
	if r.socket != "" {
		if len(args) > 0 || r.state != "" {
			return nil, errors.New("audit: DIR and --state are for files: the daemon of --socket knows its own log")
		}
		from.client = newClient(r.socket)
		return from, nil
	}
	var err error
	from.dir, err = p.auditDirectory(args, r.state)
	return from, err
}

// flagError names the flag in place of the API's parameter.
func flagError(err error) error {
	var e *execd.Error
	if errors.As(err, &e) {
		return fmt.Errorf("--%s: %s", strings.TrimPrefix(e.Field, "query."), e.Message)
	}
	return err
}

// page gets one page from a record on.
func (s *recordSource) page(ctx context.Context, from int64) (page execd.AuditPage, err error) {
	s.values.Set("from", strconv.FormatInt(max(from, 1), 10))
	if s.client == nil {
		q, err := execd.ParseAuditQuery(s.values)
		if err != nil {
			return page, err
		}
		read, err := audit.Read(s.dir, q, 0)
		page.Records, page.Next = read.Records, read.Next
		return page, err
	}
	answer, err := s.client.do(ctx, http.MethodGet, "/v1/audit?"+s.values.Encode(), "application/json", nil)
	if err != nil {
		return page, err
	}
	defer answer.Body.Close()
	return page, readAnswer(answer, &page)
}

// last is the number of the last record.
func (s *recordSource) last(ctx context.Context) (int64, error) {
	if s.client == nil {
		return audit.Last(s.dir)
	}
	probe := *s
	probe.values = url.Values{"limit": {"1"}}
	page, err := probe.page(ctx, 1)
	return page.Last, err
}

// each calls visit with the records from one on, page by page, and gives the number behind the last.
func (s *recordSource) each(ctx context.Context, from int64, visit func(jsontext.Value) error) (next int64, err error) {
	for {
		page, err := s.page(ctx, from)
		if err != nil {
			return from, err
		}
		for _, line := range page.Records {
			if err := visit(line); err != nil {
				return from, err
			}
			var number struct {
				Sequence int64 `json:"seq"`
			}
			if err := json.Unmarshal(line, &number); err != nil {
				return from, err
			}
			from = number.Sequence + 1
		}
		if page.Next == 0 {
			return from, nil
		}
		from = page.Next
	}
}

func (p *program) auditShow(ctx context.Context, flags *flagSet, args []string) (int, error) {
	var wanted recordFlags
	wanted.register(flags, "from", "to", "since", "until", "exec", "sandbox", "decision", "type")
	rest, err := flags.parseAround(args)
	if err != nil {
		return 0, err
	}
	source, err := wanted.open(p, rest)
	if err != nil {
		return 0, err
	}
	from, _ := strconv.ParseInt(source.values.Get("from"), 10, 64) // open has checked it
	_, err = source.each(ctx, from, p.recordPrinter(wanted.asJSON))
	return 0, err
}

// pollLog is how often tail looks for more.
const pollLog = 200 * time.Millisecond

func (p *program) auditTail(ctx context.Context, flags *flagSet, args []string) (int, error) {
	var wanted recordFlags
	wanted.register(flags, "type")
	number := flags.Int64("n", 10, "how many records of the end are looked at")
	follow := flags.Bool("follow", false, "go on with records that come, until interrupted")
	rest, err := flags.parseAround(args)
	if err != nil {
		return 0, err
	}
	if *number < 0 {
		return 0, errors.New("audit tail: -n: want 0 or more")
	}
	source, err := wanted.open(p, rest)
	if err != nil {
		return 0, err
	}
	last, err := source.last(ctx)
	if err != nil {
		return 0, err
	}
	from := max(last-*number+1, 1)
	for {
		if from, err = source.each(ctx, from, p.recordPrinter(wanted.asJSON)); err != nil || !*follow {
			if ctx.Err() != nil { // the interrupt that ends following
				err = nil
			}
			return 0, err
		}
		select {
		case <-ctx.Done():
			return 0, nil
		case <-time.After(pollLog):
		}
	}
}

// recordPrinter prints a record in one line.
func (p *program) recordPrinter(asJSON bool) func(jsontext.Value) error {
	s := p.style(p.stdout)
	return func(line jsontext.Value) error {
		if asJSON {
			_, err := fmt.Fprintf(p.stdout, "%s\n", line)
			return err
		}
		var r struct {
			Sequence int64     `json:"seq"`
			Time     time.Time `json:"time"`
			audit.Record
		}
		if err := json.Unmarshal(line, &r); err != nil {
			return err
		}
		_, err := fmt.Fprintf(p.stdout, "%6d  %s  %-11s %s\n", r.Sequence, r.Time.UTC().Format("2006-01-02T15:04:05.000Z"), r.Type, strings.Join(about(s, r.Record), "  "))
		return err
	}
}

// about is what a person wants to know of a record first.
func about(s style, r audit.Record) (words []string) {
	add := func(format string, values ...any) { words = append(words, fmt.Sprintf(format, values...)) }
	if r.Exec != "" {
		add("exec %s", short(r.Exec))
	}
	if r.Sandbox != "" {
		add("sandbox %s", short(r.Sandbox))
	}
	if r.Caller != nil {
		add("uid %d", r.Caller.UID)
	}
	if r.Request != nil && len(r.Request.Argv) > 0 {
		add("%s", cell(strings.Join(r.Request.Argv, " ")))
	}
	if d := r.Decision; d != nil && !d.Allow {
		for _, reason := range d.Reasons {
			add("%s %s", s.bad("denied"), cell(reason.Message))
		}
	}
	if v := r.Verdict; v != nil {
		add("%s", heldWord(s, v.Held))
	}
	if e := r.Ending; e != nil {
		add("%s", e.Outcome)
	}
	if e := r.Egress; e != nil {
		add("%s %s", e.Event, cell(strings.TrimSpace(e.Name+" "+e.Destination)))
	}
	if r.Seam != nil && r.Seam.File != "" {
		add("after %s", r.Seam.File)
	}
	if r.Message != "" {
		add("%s", cell(r.Message))
	}
	return words
}
