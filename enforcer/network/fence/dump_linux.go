package fence

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// errInterrupted says that the kernel's tables changed while they were read (NLM_F_DUMP_INTR).
var errInterrupted = errors.New("changed while it was read")

// dump asks for all of a kind and gives each answer to visit. It has no way to wait for long: the kernel makes the answers while they are read.
func dump(fd int, buffer, request []byte, visit func(nlMessage)) error {
	for range 8 {
		err := dumpOnce(fd, buffer, request, visit)
		if !errors.Is(err, errInterrupted) {
			return err
		}
	}
	return errInterrupted
}

func dumpOnce(fd int, buffer, request []byte, visit func(nlMessage)) error {
	if err := unix.Sendto(fd, request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return os.NewSyscallError("sendto", err)
	}
	var all []nlMessage
	interrupted := false
	for {
		n, _, flags, _, err := unix.Recvmsg(fd, buffer, nil, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return os.NewSyscallError("recvmsg", err)
		}
		if flags&unix.MSG_TRUNC != 0 {
			return errors.New("an answer that is longer than 64 KiB")
		}
		answers := messages(buffer[:n])
		if len(answers) == 0 {
			return errors.New("an answer without a message")
		}
		for _, answer := range answers {
			interrupted = interrupted || answer.flags&unix.NLM_F_DUMP_INTR != 0
			switch answer.kind {
			case unix.NLMSG_DONE, unix.NLMSG_ERROR:
				if len(answer.body) >= 4 && int32(native.Uint32(answer.body)) < 0 {
					return unix.Errno(-int32(native.Uint32(answer.body)))
				}
				if interrupted {
					return errInterrupted
				}
				for _, one := range all {
					visit(one)
				}
				return nil
			}
			answer.body = append([]byte(nil), answer.body...) // the buffer is used again
			all = append(all, answer)
		}
	}
}

// Observe reads the namespace back through the fence's own netlink sockets, and the sockets themselves.
func (f *Fence) Observe() (State, error) {
	f.asking.Lock()
	defer f.asking.Unlock()
	var s State
	if err := f.observeSockets(&s); err != nil {
		return State{}, err
	}
	if f.plan.Variant == VariantProxy {
		return s, nil
	}
	buffer := make([]byte, 64<<10)
	err := f.onNetlink(func(netfilter, route int) error {
		if err := observeRoute(route, buffer, &s); err != nil {
			return err
		}
		if err := observeRuleset(netfilter, buffer, &s); err != nil || !f.plan.hasReach() {
			return err
		}
		s.Admitted = f.admitted.texts()
		return observeReach(netfilter, buffer, &s)
	})
	if err == nil && f.plan.Variant == VariantPod {
		err = observeLegacy(&s)
	}
	if err != nil {
		return State{}, fmt.Errorf("fence: observe: %w", err)
	}
	return s, nil
}

func observeRoute(fd int, buffer []byte, s *State) error {
	names := map[uint32]string{}
	for _, table := range []struct {
		kind, answer uint16
		family       byte
		read         func([]byte) string
		into         *[]string
	}{
		{unix.RTM_GETLINK, unix.RTM_NEWLINK, unix.AF_UNSPEC, func(body []byte) string { return linkText(body, names) }, &s.Links},
		{unix.RTM_GETADDR, unix.RTM_NEWADDR, unix.AF_UNSPEC, func(body []byte) string { return addressText(body, names) }, &s.Addresses},
		{unix.RTM_GETROUTE, unix.RTM_NEWROUTE, unix.AF_UNSPEC, func(body []byte) string { return routeText(body, names) }, &s.Routes},
		// Not of every family: multicast routing has rules of its own, which are the same everywhere.
		{unix.RTM_GETRULE, unix.RTM_NEWRULE, unix.AF_INET, ruleText, &s.Rules},
		{unix.RTM_GETRULE, unix.RTM_NEWRULE, unix.AF_INET6, ruleText, &s.Rules},
		{unix.RTM_GETQDISC, unix.RTM_NEWQDISC, unix.AF_UNSPEC, func(body []byte) string { return qdiscText(body, names) }, &s.Qdiscs},
	} {
		err := dump(fd, buffer, dumpRequest(table.kind, table.family), func(m nlMessage) {
			if m.kind == table.answer {
				*table.into = append(*table.into, table.read(m.body))
			}
		})
		// A kernel without IPv6 or without packet schedulers has none.
		if err != nil && !(errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EAFNOSUPPORT)) {
			return fmt.Errorf("rtnetlink %d: %w", table.kind, err)
		}
	}
	return nil
}

// rulesetKinds are what nf_tables has: the requests for all of each, in the order in which [State.Ruleset] has them.
var rulesetKinds = []struct {
	name        string
	get, answer uint16
}{
	{"table", unix.NFT_MSG_GETTABLE, unix.NFT_MSG_NEWTABLE},
	{"chain", unix.NFT_MSG_GETCHAIN, unix.NFT_MSG_NEWCHAIN},
	{"rule", unix.NFT_MSG_GETRULE, unix.NFT_MSG_NEWRULE},
	{"set", unix.NFT_MSG_GETSET, unix.NFT_MSG_NEWSET},
	{"object", unix.NFT_MSG_GETOBJ, unix.NFT_MSG_NEWOBJ},
	{"flowtable", unix.NFT_MSG_GETFLOWTABLE, unix.NFT_MSG_NEWFLOWTABLE},
}

func observeRuleset(fd int, buffer []byte, s *State) error {
	for _, kind := range rulesetKinds {
		request := nfMessage(nfTables|kind.get, unix.NLM_F_DUMP, unix.NFPROTO_UNSPEC, 0)
		err := dump(fd, buffer, request, func(m nlMessage) {
			if m.kind == nfTables|kind.answer {
				s.Ruleset = append(s.Ruleset, objectText(kind.name, m.body))
			}
		})
		if err != nil {
			return fmt.Errorf("nf_tables: %ss: %w", kind.name, err)
		}
	}
	return nil
}

// observeReach reads the elements of our sets. Sets of others are for the ruleset to miss.
func observeReach(fd int, buffer []byte, s *State) error {
	for _, set := range setNames {
		err := dump(fd, buffer, getElements(set), func(m nlMessage) {
			if m.kind != nfTables|unix.NFT_MSG_NEWSETELEM {
				return
			}
			for _, line := range elementTexts(m.body) {
				s.Reach = append(s.Reach, set+" "+line)
			}
		})
		// A table or a set that isn't there has none; the ruleset says so.
		if err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("nf_tables: elements: %w", err)
		}
	}
	slices.Sort(s.Reach)
	return nil
}

// observeLegacy reads the names of iptables' own tables in the namespace of this process. The files are there when the modules are.
func observeLegacy(s *State) error {
	for _, family := range []string{"ip", "ip6", "arp"} {
		data, err := os.ReadFile("/proc/thread-self/net/" + family + "_tables_names")
		if errors.Is(err, os.ErrPermission) {
			continue // for root to read; whoever holds a fence as another says that it isn't seen
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		for _, name := range strings.Fields(string(data)) {
			s.Legacy = append(s.Legacy, family+"tables "+name)
		}
	}
	return nil
}
