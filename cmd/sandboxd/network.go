package main

import (
	"encoding/json/v2"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/sandboxd/sandboxd/execd"
	"github.com/sandboxd/sandboxd/policy"
)

// parseNetwork is the network spec of the flags: whole by --network, or what --network-allow lists, with the rest denied. Nil is neither.
func (s *spec) parseNetwork() ([]byte, error) {
	switch {
	case s.network != "" && len(s.networkAllow) > 0:
		return nil, errors.New("--network and --network-allow: give one of them")
	case s.network != "":
		data, err := jsonOrFile("--network", s.network)
		if err != nil {
			return nil, err
		}
		if _, err := execd.ParseNetwork(data); err != nil {
			return nil, fmt.Errorf("--network: %w", err)
		}
		return data, nil
	case len(s.networkAllow) == 0:
		return nil, nil
	}
	var spec policy.NetworkSpec
	for _, text := range s.networkAllow {
		rule, err := allowRule(text)
		if err != nil {
			return nil, fmt.Errorf("--network-allow %q: %w", text, err)
		}
		one, err := json.Marshal(policy.NetworkSpec{Egress: []policy.EgressRule{rule}})
		if err != nil {
			return nil, err
		}
		if _, err := execd.ParseNetwork(one); err != nil {
			return nil, fmt.Errorf("--network-allow %q: %w", text, withoutField(err))
		}
		spec.Egress = append(spec.Egress, rule)
	}
	return json.Marshal(spec)
}

// allowRule reads TARGET or TARGET:PORT,…; an IPv6 address or prefix that has ports is in brackets, as in a URL.
func allowRule(text string) (policy.EgressRule, error) {
	rule := policy.EgressRule{Action: policy.NetworkAllow, Target: text}
	var ports string
	switch inner, bracket := strings.CutPrefix(text, "["); {
	case bracket:
		target, rest, closed := strings.Cut(inner, "]")
		if !closed || !strings.HasPrefix(rest, ":") || strings.Count(target, ":") < 2 {
			return rule, errors.New("want [IPV6]:PORT,… where brackets are")
		}
		rule.Target, ports = target, rest[1:]
	case strings.Contains(text, "://"), strings.Count(text, ":") != 1:
		return rule, nil // without ports; what else is wrong is for the parser to say
	default:
		rule.Target, ports, _ = strings.Cut(text, ":")
	}
	for _, word := range strings.Split(ports, ",") {
		port, err := strconv.Atoi(word)
		if err != nil || strconv.Itoa(port) != word || port < 1 || port > 65535 {
			return rule, fmt.Errorf("%q isn't a port; want TARGET:PORT,… with ports 1..65535", word)
		}
		rule.Ports = append(rule.Ports, port)
	}
	return rule, nil
}

// withoutField leaves out a field that the caller never wrote.
func withoutField(err error) error {
	var fault *policy.FieldError
	if errors.As(err, &fault) {
		return &policy.FieldError{Message: fault.Message, Nearest: fault.Nearest}
	}
	return err
}

// parseResolvers reads addresses, whose port is 53 unless they have one, or the word none alone.
func parseResolvers(texts []string) ([]netip.AddrPort, error) {
	if len(texts) == 1 && texts[0] == "none" {
		return nil, nil
	}
	var resolvers []netip.AddrPort
	for _, text := range texts {
		resolver, err := netip.ParseAddrPort(text)
		if err != nil {
			address, plain := netip.ParseAddr(text)
			if plain != nil {
				return nil, fmt.Errorf("--resolver %q: want an address such as 192.0.2.53, 192.0.2.53:5353 or [2001:db8::53]:53, or none alone", text)
			}
			resolver = netip.AddrPortFrom(address, 53)
		}
		if resolver.Port() == 0 {
			return nil, fmt.Errorf("--resolver %q: port 0 is no port", text)
		}
		resolvers = append(resolvers, resolver)
	}
	return resolvers, nil
}
