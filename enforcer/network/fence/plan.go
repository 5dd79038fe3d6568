package fence

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json/v2"
)

// Plan is a fence, inert: what to send to the kernel, and which sockets to make.
type Plan struct {
	// Variant is [VariantAnyIP], [VariantPod] or [VariantProxy]; empty: there is no fence, and the namespace has no way out at all.
	Variant string `json:"variant,omitzero"`
	// Route are rtnetlink requests, each sent alone, in this order. Each can be sent again without harm.
	Route [][]byte `json:"route,omitzero"`
	// Netfilter is one transaction of nf_tables.
	Netfilter []byte `json:"netfilter,omitzero"`
	// Sockets are made in this order.
	Sockets []Socket `json:"sockets,omitzero"`
}

// The variants.
const (
	VariantAnyIP = "anyip"
	VariantPod   = "pod"
	VariantProxy = "proxy"
)

// Socket is one socket to make. Its numbers are socket(2)'s, setsockopt(2)'s and bind(2)'s.
type Socket struct {
	Name     string   `json:"name"`
	Domain   int      `json:"domain"`
	Type     int      `json:"type"`
	Protocol int      `json:"protocol"`
	Options  []Option `json:"options,omitzero"`
	// Address is what it is bound to; empty: nothing. A TCP socket is bound when it is made, so that nobody else has its port, and listens when the fence is
	// opened: a connection to a port that is bound and doesn't listen is refused. A UDP socket is bound when the fence is opened, since a bound one swallows.
	Address string `json:"address,omitzero"`
}

// Option is a socket option that is a number.
type Option struct {
	Level int `json:"level"`
	Name  int `json:"name"`
	Value int `json:"value"`
}

// The names of sockets.
const (
	socketRelay4         = "relay4"
	socketRelay6         = "relay6"
	socketNames          = "names"
	socketNames6         = "names6"
	socketNamesTCP       = "names.tcp"
	socketNamesTCP6      = "names6.tcp"
	socketDatagrams4     = "datagrams4"
	socketDatagrams6     = "datagrams6"
	socketAnswer4        = "answer4"
	socketAnswer6        = "answer6"
	socketNetfilter      = "netlink.netfilter"
	socketRoute          = "netlink.route"
	socketRefused        = "netlink.nflog"
	socketWatchNetfilter = "netlink.netfilter.watch"
	socketWatchRoute     = "netlink.route.watch"
)

// Digest is "sha256:" and hex over the plan's JSON.
func (p Plan) Digest() string {
	data, err := json.Marshal(p, json.Deterministic(true))
	if err != nil {
		panic("fence: a plan has no JSON form; please report this: " + err.Error())
	}
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// socket is the index of a socket by its name, or -1.
func (p Plan) socket(name string) int {
	for i, s := range p.Sockets {
		if s.Name == name {
			return i
		}
	}
	return -1
}
