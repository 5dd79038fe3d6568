package names

import (
	"encoding/binary"
	"net/netip"
	"time"

	"github.com/miekg/dns"
)

const (
	headerBytes = 12
	// mostQuery is the longest query that is read: a name of 255 bytes with EDNS options as no client has them.
	mostQuery = 4096
)

// query is a parsed query whose answer needs more than the table of its own sandbox.
type query struct {
	message dns.Msg
	name    string // canonical
	match   Match
	start   time.Time
	// upstream says that the cache had no answer.
	upstream bool
}

// begin answers packet if that needs no upstream: reply is the answer, nil for silence. Otherwise the query is left to finish.
func (s *Server) begin(packet []byte) (reply []byte, left *query) {
	if len(packet) < headerBytes || packet[2]&0x80 != 0 {
		return nil, nil // answering an answer would begin a game of ping-pong
	}
	q := &query{start: s.config.Now()}
	if !s.rate.take(q.start) {
		s.deny(q, "", Match{Rule: RuleNone, Reason: ReasonRate})
		return s.short(q, packet, dns.RcodeRefused), nil
	}
	if len(packet) > mostQuery || !wellFormed(packet, &q.message) {
		q.message = dns.Msg{}
		s.deny(q, "", Match{Rule: RuleNone, Reason: ReasonShape})
		return s.short(q, packet, dns.RcodeFormatError), nil
	}
	if refused := operation(q.message.Opcode, q.message.Question); refused != "" {
		s.deny(q, "", Match{Rule: RuleNone, Reason: refused})
		return s.reply(q, dns.RcodeRefused), nil
	}
	if opt := q.message.IsEdns0(); opt != nil && opt.Version() != 0 {
		return s.reply(q, dns.RcodeBadVers), nil
	}
	name, malformed := canonical(q.message.Question[0].Name)
	switch {
	case malformed != "":
		s.deny(q, "", Match{Rule: RuleNone, Reason: malformed})
		return s.reply(q, dns.RcodeNameError), nil
	case isLocalhost(name):
		return s.reply(q, dns.RcodeSuccess, netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()), nil
	}
	q.name = name
	if q.match = s.config.Resolvable(name); !q.match.Allow {
		s.deny(q, name, q.match)
		return s.reply(q, dns.RcodeNameError), nil
	}
	if reason := s.limited(name, q.match.Spelled); reason != "" {
		s.deny(q, name, Match{Rule: q.match.Rule, In: q.match.In, Reason: reason})
		return s.reply(q, dns.RcodeRefused), nil
	}
	if answer, ok := s.config.Resolver.cached(name, q.start); ok {
		return s.answer(q, answer), nil
	}
	return nil, q
}

// wellFormed: one question, nothing that belongs into answers, and of additional records at most one, OPT. The counts are looked at in the
// packet, since a parser may forgive a count that is a lie.
func wellFormed(packet []byte, message *dns.Msg) bool {
	count := func(at int) uint16 { return binary.BigEndian.Uint16(packet[at:]) }
	if count(4) != 1 || count(6) != 0 || count(8) != 0 || count(10) > 1 {
		return false
	}
	if message.Unpack(packet) != nil || len(message.Question) != 1 || len(message.Extra) != int(count(10)) {
		return false
	}
	return len(message.Extra) == 0 || message.IsEdns0() != nil
}

func operation(opcode int, questions []dns.Question) (reason string) {
	question := questions[0]
	switch {
	case opcode != dns.OpcodeQuery:
		return ReasonOperation
	case question.Qclass != dns.ClassINET:
		return ReasonClass
	case question.Qtype != dns.TypeA && question.Qtype != dns.TypeAAAA:
		return ReasonType
	}
	return ""
}

// limited says which limit name runs into. Only what upstream could be asked for counts.
func (s *Server) limited(name string, spelled bool) (reason string) {
	if !spelled {
		if reason := s.config.Limits.carries(name); reason != "" {
			return reason
		}
	}
	if !s.table.ask(name, spelled) {
		return ReasonNames
	}
	return ""
}

// answer is what upstream's answer becomes.
func (s *Server) answer(q *query, answer Answer) []byte {
	switch {
	case !answer.Exists:
		return s.reply(q, dns.RcodeNameError)
	case len(answer.Addrs) == 0:
		return s.reply(q, dns.RcodeSuccess)
	}
	var refused Match
	for _, address := range answer.Addrs {
		match := s.config.Resolved(q.name, address)
		if match.Allow {
			four, six := s.table.addresses(q.name)
			return s.reply(q, dns.RcodeSuccess, four, six)
		}
		refused = match
	}
	s.deny(q, q.name, refused)
	return s.reply(q, dns.RcodeNameError)
}

// answerTTL is in seconds, and short. It says how soon a program asks again, and thereby how soon a name that is gone upstream, or by policy, is
// gone for it; the synthetic address itself holds for ever.
const answerTTL = 10

// reply has the address of the question's family among those given, if it is valid.
func (s *Server) reply(q *query, rcode int, addresses ...netip.Addr) []byte {
	question := q.message.Question[0]
	reply := dns.Msg{
		MsgHdr: dns.MsgHdr{Id: q.message.Id, Response: true, Opcode: q.message.Opcode, RecursionDesired: q.message.RecursionDesired,
			RecursionAvailable: true, CheckingDisabled: q.message.CheckingDisabled, Rcode: rcode},
		Compress: true,
		Question: q.message.Question, // in the program's own spelling
	}
	header := dns.RR_Header{Name: question.Name, Rrtype: question.Qtype, Class: dns.ClassINET, Ttl: answerTTL}
	for _, address := range addresses {
		switch {
		case address.Is4() && question.Qtype == dns.TypeA:
			reply.Answer = append(reply.Answer, &dns.A{Hdr: header, A: address.AsSlice()})
		case address.Is6() && question.Qtype == dns.TypeAAAA:
			reply.Answer = append(reply.Answer, &dns.AAAA{Hdr: header, AAAA: address.AsSlice()})
		}
	}
	if opt := q.message.IsEdns0(); opt != nil {
		reply.SetEdns0(udpSize, opt.Do()) // no options of ours, whatever came
	}
	packet, err := reply.Pack()
	if err != nil {
		return s.short(q, []byte{byte(q.message.Id >> 8), byte(q.message.Id), 0}, dns.RcodeServerFailure)
	}
	s.observe(q, rcode)
	return packet
}

// short is a header alone, for what can't be parsed or isn't worth it.
func (s *Server) short(q *query, packet []byte, rcode int) []byte {
	s.observe(q, rcode)
	opcodeAndRD := packet[2] & 0x79
	return []byte{packet[0], packet[1], 0x80 | opcodeAndRD, 0x80 | byte(rcode), 0, 0, 0, 0, 0, 0, 0, 0}
}

func (s *Server) observe(q *query, rcode int) {
	if s.config.Observed != nil {
		s.config.Observed(Query{Rcode: dns.RcodeToString[rcode], Upstream: q.upstream, Took: s.config.Now().Sub(q.start)})
	}
}
