package names

import (
	"sync/atomic"

	"github.com/miekg/dns"
)

// denials tells of refused queries, as many as the record can take.
type denials struct {
	rate       *bucket
	suppressed atomic.Int64
}

// deny tells that q was refused. Without a name the question's own is told; a query that wasn't parsed has none.
func (s *Server) deny(q *query, name string, match Match) {
	if s.config.Denied == nil {
		return
	}
	if !s.denials.rate.take(s.config.Now()) {
		s.denials.suppressed.Add(1)
		return
	}
	denial := Denial{Name: name, Rule: match.Rule, In: match.In, Reason: match.Reason, Suppressed: int(s.denials.suppressed.Swap(0))}
	if len(q.message.Question) == 1 {
		question := q.message.Question[0]
		denial.Type = dns.Type(question.Qtype).String()
		if name == "" {
			denial.Name = question.Name
		}
	}
	s.config.Denied(denial)
}
