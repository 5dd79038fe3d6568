package network

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"

	"github.com/miekg/dns"
)

// zone answers for every name there is, as a recursive resolver would.
type zone struct {
	servers []*dns.Server
	running sync.WaitGroup

	mu      sync.Mutex
	records map[string][]string
	asked   map[string]int
	rebound bool
}

func serveZone(at netip.AddrPort) (*zone, error) {
	z := &zone{records: map[string][]string{}, asked: map[string]int{}}
	for name, texts := range records {
		z.records[name] = texts
	}
	udp, err := net.ListenPacket("udp", at.String())
	if err != nil {
		return nil, err
	}
	tcp, err := net.Listen("tcp", at.String())
	if err != nil {
		return nil, errors.Join(err, udp.Close())
	}
	z.servers = []*dns.Server{{PacketConn: udp, Handler: z}, {Listener: tcp, Handler: z}}
	for _, server := range z.servers {
		started := make(chan struct{})
		server.NotifyStartedFunc = func() { close(started) }
		z.running.Go(func() { _ = server.ActivateAndServe() })
		<-started
	}
	return z, nil
}

func (z *zone) close() {
	for _, server := range z.servers {
		_ = server.Shutdown()
	}
	z.running.Wait()
}

func (z *zone) count(name string) int {
	z.mu.Lock()
	defer z.mu.Unlock()
	return z.asked[name]
}

func (z *zone) set(name string, records []string) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.records[name] = records
}

// ServeDNS follows CNAMEs, as the resolvers do that a machine is configured with.
func (z *zone) ServeDNS(w dns.ResponseWriter, query *dns.Msg) {
	reply := new(dns.Msg).SetReply(query)
	reply.RecursionAvailable = true
	if len(query.Question) != 1 {
		reply.Rcode = dns.RcodeFormatError
	} else if err := z.fill(reply); err != nil {
		reply.Rcode = dns.RcodeServerFailure
	}
	_ = w.WriteMsg(reply)
}

func (z *zone) fill(reply *dns.Msg) error {
	z.mu.Lock()
	defer z.mu.Unlock()
	question := reply.Question[0]
	z.asked[strings.ToLower(strings.TrimSuffix(question.Name, "."))]++
	for owner := question.Name; owner != ""; {
		texts, exists := z.of(strings.ToLower(strings.TrimSuffix(owner, ".")), question.Qtype)
		if !exists {
			reply.Rcode = dns.RcodeNameError
			return nil
		}
		next := ""
		for _, text := range texts {
			record, err := dns.NewRR(fmt.Sprintf("%s 0 IN %s", owner, text))
			if err != nil {
				return err
			}
			if alias, ok := record.(*dns.CNAME); ok {
				next = alias.Target
			} else if record.Header().Rrtype != question.Qtype {
				continue
			}
			reply.Answer = append(reply.Answer, record)
		}
		owner = next
	}
	return nil
}

// of are the records of a name. The rebinding name changes with the first question for its IPv4 address.
func (z *zone) of(name string, kind uint16) ([]string, bool) {
	if name == RebindingName {
		address := Private
		if !z.rebound {
			address = Rebinding
		}
		z.rebound = z.rebound || kind == dns.TypeA
		return []string{"A " + address.String()}, true
	}
	texts, exists := z.records[name]
	return texts, exists
}
