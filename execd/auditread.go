package execd

import (
	"encoding/json/jsontext"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"

	"github.com/sandboxd/sandboxd/execd/audit"
	"github.com/sandboxd/sandboxd/policy"
)

// AuditPage is the answer of GET /v1/audit: records as the log has them.
type AuditPage struct {
	Records []jsontext.Value `json:"records"`
	// Next is the parameter "from" of the next page, absent where there is none yet.
	Next int64 `json:"next,omitzero"`
	// Last is the last record that the disk has, Anchored that of the last signed checkpoint, 0 before the first.
	Last     int64 `json:"last"`
	Anchored int64 `json:"anchored"`
	// Own says that the caller sees its own records only: those that name it. The owner of the daemon and root see all.
	Own bool `json:"own"`
}

// How many records a page has: unless it is said, and at most.
const (
	auditLimit     = 100
	mostAuditLimit = 1000
)

// auditQuery are the parameters of GET /v1/audit.
var auditQuery = []string{"from", "to", "since", "until", "exec", "sandbox", "decision", "type", "limit"}

// getAudit reads the log that this daemon writes, up to what is durable.
func (s *Service) getAudit(x *exchange) error {
	q, err := ParseAuditQuery(x.r.URL.Query())
	if err != nil {
		return err
	}
	if !seesAll(x.caller) {
		q.Of = &x.caller
	}
	anchored, _ := s.log.Anchor()
	reply := AuditPage{Records: []jsontext.Value{}, Last: s.log.Last(), Anchored: anchored, Own: q.Of != nil}
	if reply.Last == 0 { // which Read takes for no bound
		x.answer(http.StatusOK, reply)
		return nil
	}
	page, err := audit.Read(s.log.Dir(), q, reply.Last)
	if err != nil {
		return err
	}
	if page.Records != nil {
		reply.Records = page.Records
	}
	reply.Next = page.Next
	x.answer(http.StatusOK, reply)
	return nil
}

// seesAll says whether a caller may read what others did: it is the daemon's own user, who can read the files, or root.
func seesAll(caller policy.Caller) bool {
	return caller.Name == "" && (caller.UID == os.Geteuid() || caller.UID == 0)
}

// ParseAuditQuery reads the parameters of GET /v1/audit; errors name them as query.NAME.
func ParseAuditQuery(values url.Values) (q audit.Query, err error) {
	q.Exec, q.Sandbox, q.Decision, q.Type = values.Get("exec"), values.Get("sandbox"), values.Get("decision"), audit.Type(values.Get("type"))
	if q.Type != "" && !q.Type.Known() {
		return q, badField("query.type", strconv.Quote(string(q.Type))+" is no type of a record; nearest is "+nearest(string(q.Type), audit.Types()))
	}
	limit := int64(auditLimit)
	for _, number := range []struct {
		name string
		to   *int64
		most int64
	}{{"from", &q.From, 1<<53 - 1}, {"to", &q.To, 1<<53 - 1}, {"limit", &limit, mostAuditLimit}} {
		if text := values.Get(number.name); text != "" {
			if *number.to, err = strconv.ParseInt(text, 10, 64); err != nil || *number.to < 1 || *number.to > number.most {
				return q, badField("query."+number.name, strconv.Quote(text)+": want a number, 1.."+strconv.FormatInt(number.most, 10))
			}
		}
	}
	q.Limit = int(limit)
	for _, at := range []struct {
		name string
		to   *time.Time
	}{{"since", &q.Since}, {"until", &q.Until}} {
		if text := values.Get(at.name); text != "" {
			if *at.to, err = time.Parse(time.RFC3339, text); err != nil {
				return q, badField("query."+at.name, strconv.Quote(text)+": want a time such as 2026-12-01T09:30:00Z (RFC 3339)")
			}
		}
	}
	if q.To != 0 && q.From > q.To {
		return q, badField("query.from", "it is beyond to")
	}
	return q, nil
}
