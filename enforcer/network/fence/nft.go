package fence

import (
	"encoding/binary"
	"slices"

	"golang.org/x/sys/unix"
)

// Messages and expressions of nf_tables (linux/netfilter/nf_tables.h), byte for byte as the kernel dumps them again: the order of attributes is its.

const nfTables = unix.NFNL_SUBSYS_NFTABLES << 8

// nfMessage is a message of nf_tables, or of nfnetlink where subsystem is 0, with its struct nfgenmsg.
func nfMessage(kind, flags uint16, family byte, resource uint16, body ...[]byte) []byte {
	header := binary.BigEndian.AppendUint16([]byte{family, unix.NFNETLINK_V0}, resource)
	return message(kind, flags, slices.Concat([][]byte{header}, body)...)
}

// transaction is messages between begin and end: the kernel takes all or nothing. The last message is acknowledged.
func transaction(parts ...[]byte) []byte {
	last := slices.Clone(parts[len(parts)-1])
	native.PutUint16(last[6:], native.Uint16(last[6:])|unix.NLM_F_ACK)
	all := slices.Concat([][]byte{nfMessage(unix.NFNL_MSG_BATCH_BEGIN, 0, unix.NFPROTO_UNSPEC, unix.NFNL_SUBSYS_NFTABLES)}, parts[:len(parts)-1],
		[][]byte{last, nfMessage(unix.NFNL_MSG_BATCH_END, 0, unix.NFPROTO_UNSPEC, unix.NFNL_SUBSYS_NFTABLES)})
	return slices.Concat(all...)
}

// tableName is the name of our table, of the family inet.
const tableName = "sandboxd"

func newTable(flags uint32) []byte {
	return nfMessage(nfTables|unix.NFT_MSG_NEWTABLE, unix.NLM_F_CREATE, unix.NFPROTO_INET, 0, text(unix.NFTA_TABLE_NAME, tableName), big32(unix.NFTA_TABLE_FLAGS, flags))
}

func deleteTable() []byte {
	return nfMessage(nfTables|unix.NFT_MSG_DELTABLE, 0, unix.NFPROTO_INET, 0, text(unix.NFTA_TABLE_NAME, tableName))
}

// flushRuleset deletes every table of every family.
func flushRuleset() []byte {
	return nfMessage(nfTables|unix.NFT_MSG_DELTABLE, 0, unix.NFPROTO_UNSPEC, 0)
}

// chainFlagBase is NFT_CHAIN_BASE.
const chainFlagBase = 1

// baseChain is one at a hook.
func baseChain(name, kind string, hook uint32, priority int32, policy uint32) []byte {
	return nfMessage(nfTables|unix.NFT_MSG_NEWCHAIN, unix.NLM_F_CREATE, unix.NFPROTO_INET, 0,
		text(unix.NFTA_CHAIN_TABLE, tableName), text(unix.NFTA_CHAIN_NAME, name),
		attribute(unix.NFTA_CHAIN_HOOK, big32(unix.NFTA_HOOK_HOOKNUM, hook), big32(unix.NFTA_HOOK_PRIORITY, uint32(priority))),
		big32(unix.NFTA_CHAIN_POLICY, policy), text(unix.NFTA_CHAIN_TYPE, kind), big32(chainFlags, chainFlagBase))
}

// chainFlags is NFTA_CHAIN_FLAGS.
const chainFlags = 10

// rule is appended to a chain.
func rule(chain string, parts ...[][]byte) []byte {
	var elements [][]byte
	for _, expression := range slices.Concat(parts...) {
		elements = append(elements, attribute(unix.NFTA_LIST_ELEM, expression))
	}
	return nfMessage(nfTables|unix.NFT_MSG_NEWRULE, unix.NLM_F_CREATE|unix.NLM_F_APPEND, unix.NFPROTO_INET, 0,
		text(unix.NFTA_RULE_TABLE, tableName), text(unix.NFTA_RULE_CHAIN, chain), attribute(unix.NFTA_RULE_EXPRESSIONS, elements...))
}

// expression is one of a rule.
func expression(name string, data ...[]byte) []byte {
	return slices.Concat(text(unix.NFTA_EXPR_NAME, name), attribute(unix.NFTA_EXPR_DATA, data...))
}

// compare holds the register against a value, by NFT_CMP_EQ or NFT_CMP_NEQ.
func compare(operator uint32, value []byte) []byte {
	return expression("cmp", big32(unix.NFTA_CMP_SREG, unix.NFT_REG_1), big32(unix.NFTA_CMP_OP, operator),
		attribute(unix.NFTA_CMP_DATA, attribute(unix.NFTA_DATA_VALUE, value)))
}

// meta loads one of the packet's attributes and compares it.
func meta(key uint32, value []byte) [][]byte { return metaIs(key, unix.NFT_CMP_EQ, value) }

func metaIs(key, operator uint32, value []byte) [][]byte {
	return [][]byte{expression("meta", big32(unix.NFTA_META_KEY, key), big32(unix.NFTA_META_DREG, unix.NFT_REG_1)), compare(operator, value)}
}

// payload loads bytes of the packet and compares them.
func payload(base uint32, offset uint32, value []byte) [][]byte {
	return [][]byte{expression("payload", big32(unix.NFTA_PAYLOAD_DREG, unix.NFT_REG_1), big32(unix.NFTA_PAYLOAD_BASE, base),
		big32(unix.NFTA_PAYLOAD_OFFSET, offset), big32(unix.NFTA_PAYLOAD_LEN, uint32(len(value)))), compare(unix.NFT_CMP_EQ, value)}
}

func ipv4() [][]byte { return meta(unix.NFT_META_NFPROTO, []byte{unix.NFPROTO_IPV4}) }
func ipv6() [][]byte { return meta(unix.NFT_META_NFPROTO, []byte{unix.NFPROTO_IPV6}) }
func tcp() [][]byte  { return meta(unix.NFT_META_L4PROTO, []byte{unix.IPPROTO_TCP}) }
func udp() [][]byte  { return meta(unix.NFT_META_L4PROTO, []byte{unix.IPPROTO_UDP}) }

// to4 and to6 are the destination: of IPv4 its first bytes, as many as are given.
func to4(prefix ...byte) [][]byte {
	return slices.Concat(ipv4(), payload(unix.NFT_PAYLOAD_NETWORK_HEADER, 16, prefix))
}

// toMulticast4 is 224.0.0.0/4.
func toMulticast4() [][]byte {
	load := payload(unix.NFT_PAYLOAD_NETWORK_HEADER, 16, []byte{0xe0})
	return slices.Concat(ipv4(), load[:1], [][]byte{masked([]byte{0xf0})}, load[1:])
}

// masked keeps these bits of the register.
func masked(bits []byte) []byte {
	return expression("bitwise", big32(unix.NFTA_BITWISE_SREG, unix.NFT_REG_1), big32(unix.NFTA_BITWISE_DREG, unix.NFT_REG_1), big32(unix.NFTA_BITWISE_LEN, uint32(len(bits))),
		big32(bitwiseOp, 0), attribute(unix.NFTA_BITWISE_MASK, attribute(unix.NFTA_DATA_VALUE, bits)),
		attribute(unix.NFTA_BITWISE_XOR, attribute(unix.NFTA_DATA_VALUE, make([]byte, len(bits)))))
}

// bitwiseOp is NFTA_BITWISE_OP, whose 0 is mask and xor.
const bitwiseOp = 6

// to6 is the destination of IPv6: its first bytes, as many as are given.
func to6(address []byte) [][]byte {
	return slices.Concat(ipv6(), payload(unix.NFT_PAYLOAD_NETWORK_HEADER, 24, address))
}

// toPort is the destination's, of a packet whose protocol was asked for before.
func toPort(port uint16) [][]byte {
	return payload(unix.NFT_PAYLOAD_TRANSPORT_HEADER, 2, portBytes(port))
}

func portBytes(port uint16) []byte { return binary.BigEndian.AppendUint16(nil, port) }

func verdict(code uint32, more ...[]byte) [][]byte {
	return [][]byte{expression("immediate", big32(unix.NFTA_IMMEDIATE_DREG, unix.NFT_REG_VERDICT),
		attribute(unix.NFTA_IMMEDIATE_DATA, attribute(unix.NFTA_DATA_VERDICT, append([][]byte{big32(unix.NFTA_VERDICT_CODE, code)}, more...)...)))}
}

func accept() [][]byte { return verdict(1) } // NF_ACCEPT
func drop() [][]byte   { return verdict(0) } // NF_DROP

// port loads a port into the register.
func port(number uint16) []byte {
	return expression("immediate", big32(unix.NFTA_IMMEDIATE_DREG, unix.NFT_REG_1), attribute(unix.NFTA_IMMEDIATE_DATA, attribute(unix.NFTA_DATA_VALUE, portBytes(number))))
}

// tproxyFamily and tproxyPort are NFTA_TPROXY_FAMILY and NFTA_TPROXY_REG_PORT.
const (
	tproxyFamily = 1
	tproxyPort   = 3
)

// tproxy hands the packet to the socket that listens on a port, if there is one.
func tproxy(family uint32, number uint16) [][]byte {
	return [][]byte{port(number), expression("tproxy", big32(tproxyFamily, family), big32(tproxyPort, unix.NFT_REG_1))}
}

// rejectReset answers a TCP packet with a reset, reject any other with port unreachable.
func rejectReset() [][]byte {
	return [][]byte{expression("reject", big32(unix.NFTA_REJECT_TYPE, unix.NFT_REJECT_TCP_RST))}
}

func reject(icmp byte) [][]byte {
	return [][]byte{expression("reject", big32(unix.NFTA_REJECT_TYPE, unix.NFT_REJECT_ICMPX_UNREACH), attribute(unix.NFTA_REJECT_ICMP_CODE, []byte{icmp}))}
}
