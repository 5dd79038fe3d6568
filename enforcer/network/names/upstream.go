package names

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/miekg/dns"
)

const (
	// udpSize is what fits every path without fragments (DNS flag day 2020).
	udpSize = 1232
	// mostStrays is how many datagrams that aren't the answer are read before a query is given up.
	mostStrays = 64
)

var (
	errStray    = errors.New("not the answer to this query")
	errSpelling = errors.New("the answer spells the name in another way")
)

// ask sends one question to one upstream. By UDP an answer counts only if it comes from there to this query's own random port, with the random
// id, and the question in its random spelling; over TCP, which nobody answers from aside, the spelling may differ.
func ask(ctx context.Context, upstream netip.AddrPort, name string, kind uint16) (*dns.Msg, error) {
	query, err := newQuery(name, kind)
	if err != nil {
		return nil, err
	}
	reply, err := askUDP(ctx, upstream, query)
	if errors.Is(err, errSpelling) || (err == nil && reply.Truncated) {
		reply, err = askTCP(ctx, upstream, query)
	}
	if err != nil {
		return nil, fmt.Errorf("upstream %s: %s: %w", upstream, name, err)
	}
	return reply, nil
}

func newQuery(name string, kind uint16) (*dns.Msg, error) {
	random := make([]byte, 2+len(name))
	if _, err := rand.Read(random); err != nil {
		return nil, fmt.Errorf("random numbers: %w", err)
	}
	query := new(dns.Msg)
	query.Id = binary.BigEndian.Uint16(random)
	query.RecursionDesired = true
	query.Question = []dns.Question{{Name: dns.Fqdn(respell(name, random[2:])), Qtype: kind, Qclass: dns.ClassINET}}
	query.SetEdns0(udpSize, false)
	return query, nil
}

// respell makes letters upper case by chance: some bits more for who would guess an answer (0x20, draft-vixie-dnsext-dns0x20).
func respell(name string, random []byte) string {
	spelled := []byte(name)
	for i, c := range spelled {
		if c >= 'a' && c <= 'z' && random[i]&1 == 1 {
			spelled[i] = c - 'a' + 'A'
		}
	}
	return string(spelled)
}

func askUDP(ctx context.Context, upstream netip.AddrPort, query *dns.Msg) (*dns.Msg, error) {
	packet, err := query.Pack()
	if err != nil {
		return nil, err
	}
	// Connected: the kernel takes datagrams from upstream only, and tells a refusal.
	conn, err := dial(ctx, "udp", upstream)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if _, err := conn.Write(packet); err != nil {
		return nil, err
	}
	buffer := make([]byte, 4096)
	for range mostStrays {
		n, err := conn.Read(buffer)
		if err != nil {
			return nil, err
		}
		reply := new(dns.Msg)
		if reply.Unpack(buffer[:n]) != nil && !(reply.Truncated && len(reply.Question) == 1) {
			continue
		}
		if err := answers(reply, query); !errors.Is(err, errStray) {
			return reply, err
		}
	}
	return nil, errStray
}

func askTCP(ctx context.Context, upstream netip.AddrPort, query *dns.Msg) (*dns.Msg, error) {
	plain, err := dial(ctx, "tcp", upstream)
	if err != nil {
		return nil, err
	}
	defer plain.Close()
	defer context.AfterFunc(ctx, func() { plain.Close() })()
	conn := dns.Conn{Conn: plain}
	if err := conn.WriteMsg(query); err != nil {
		return nil, err
	}
	reply, err := conn.ReadMsg()
	if err != nil {
		return nil, err
	}
	if err := answers(reply, query); err != nil && !errors.Is(err, errSpelling) {
		return nil, err
	}
	return reply, nil
}

// dial has the deadline of ctx on the connection too.
func dial(ctx context.Context, network string, upstream netip.AddrPort) (net.Conn, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, network, upstream.String())
	if err != nil {
		return nil, err
	}
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			conn.Close()
			return nil, err
		}
	}
	return conn, nil
}

func answers(reply, query *dns.Msg) error {
	if !reply.Response || reply.Id != query.Id || reply.Opcode != dns.OpcodeQuery || len(reply.Question) != 1 {
		return errStray
	}
	got, want := reply.Question[0], query.Question[0]
	switch {
	case got.Qtype != want.Qtype || got.Qclass != want.Qclass || !strings.EqualFold(got.Name, want.Name):
		return errStray
	case got.Name != want.Name:
		return errSpelling
	}
	return nil
}

// found is what an upstream's answer says of one type.
type found struct {
	exists bool
	addrs  []netip.Addr
	ttl    time.Duration // as it came
}

const (
	mostAddresses = 64
	mostAliases   = 16
)

// read takes the addresses that belong to the question: records of its name, or of where its CNAMEs lead, in this answer. What else an upstream
// adds isn't looked at.
func read(reply *dns.Msg) (found, error) {
	question := reply.Question[0]
	switch reply.Rcode {
	case dns.RcodeNameError:
		return found{ttl: negativeTTL(reply)}, nil
	case dns.RcodeSuccess:
	default:
		return found{}, fmt.Errorf("%s: upstream says %s", strings.ToLower(question.Name), dns.RcodeToString[reply.Rcode])
	}
	result := found{exists: true, ttl: time.Duration(1<<31-1) * time.Second}
	owner := question.Name
	for range mostAliases {
		next := ""
		for _, record := range reply.Answer {
			header := record.Header()
			if header.Class != dns.ClassINET || !strings.EqualFold(header.Name, owner) {
				continue
			}
			switch record := record.(type) {
			case *dns.CNAME:
				next = record.Target
			case *dns.A:
				if question.Qtype == dns.TypeA {
					result.add(record.A.To4())
				}
			case *dns.AAAA:
				if question.Qtype == dns.TypeAAAA {
					result.add(record.AAAA.To16())
				}
			default:
				continue
			}
			result.ttl = min(result.ttl, seconds(header.Ttl))
		}
		if next == "" {
			break
		}
		owner = next
	}
	if len(result.addrs) == 0 {
		result.ttl = negativeTTL(reply)
	}
	return result, nil
}

func (f *found) add(ip net.IP) {
	if a, ok := netip.AddrFromSlice(ip); ok && len(f.addrs) < mostAddresses {
		f.addrs = append(f.addrs, a)
	}
}

// negativeTTL: RFC 2308 §5. Without an SOA record nothing says how long, and the shortest time is taken.
func negativeTTL(reply *dns.Msg) time.Duration {
	for _, record := range reply.Ns {
		if soa, ok := record.(*dns.SOA); ok {
			return min(seconds(soa.Hdr.Ttl), seconds(soa.Minttl))
		}
	}
	return 0
}

// seconds: what has the highest bit set counts as 0 (RFC 2181 §8).
func seconds(ttl uint32) time.Duration {
	if ttl >= 1<<31 {
		return 0
	}
	return time.Duration(ttl) * time.Second
}
