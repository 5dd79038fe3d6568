package fence

import "golang.org/x/sys/unix"

// Expressions that only a pod's fence has.

// chain is one that others jump to.
func chain(name string) []byte {
	return nfMessage(nfTables|unix.NFT_MSG_NEWCHAIN, unix.NLM_F_CREATE, unix.NFPROTO_INET, 0, text(unix.NFTA_CHAIN_TABLE, tableName), text(unix.NFTA_CHAIN_NAME, name))
}

// conntrack loads a number of the connection and asks for any of these bits.
func conntrack(key uint32, bits uint32) [][]byte {
	return [][]byte{
		expression("ct", big32(unix.NFTA_CT_DREG, unix.NFT_REG_1), big32(unix.NFTA_CT_KEY, key)),
		masked(native.AppendUint32(nil, bits)),
		compare(unix.NFT_CMP_NEQ, make([]byte, 4)),
	}
}

// goTo goes to a chain and doesn't come back.
func goTo(chain string) [][]byte {
	return verdict(0xfffffffc /* NFT_GOTO, -4 */, text(unix.NFTA_VERDICT_CHAIN, chain))
}

// owner is the uid that made the packet's socket: the fsuid of that moment, whoever uses the socket since. A packet without a socket has none.
func owner(uid uint32) [][]byte { return meta(unix.NFT_META_SKUID, native.AppendUint32(nil, uid)) }

// notLoopback is a packet that leaves by any other device.
func notLoopback() [][]byte {
	return metaIs(unix.NFT_META_OIF, unix.NFT_CMP_NEQ, native.AppendUint32(nil, loopbackIndex))
}

// notLocal is a destination that isn't this namespace's.
func notLocal() [][]byte {
	return [][]byte{
		expression("fib", big32(fibRegister, unix.NFT_REG_1), big32(fibResult, unix.NFT_FIB_RESULT_ADDRTYPE), big32(fibFlags, unix.NFTA_FIB_F_DADDR)),
		compare(unix.NFT_CMP_NEQ, native.AppendUint32(nil, unix.RTN_LOCAL)),
	}
}

// Attributes of fib: NFTA_FIB_DREG, NFTA_FIB_RESULT, NFTA_FIB_FLAGS.
const (
	fibRegister = 1
	fibResult   = 2
	fibFlags    = 3
)

// redirect sends the packet to a port of the loopback.
func redirect(number uint16) [][]byte {
	return [][]byte{port(number), expression("redir", big32(unix.NFTA_REDIR_REG_PROTO_MIN, unix.NFT_REG_1), big32(unix.NFTA_REDIR_REG_PROTO_MAX, unix.NFT_REG_1),
		big32(unix.NFTA_REDIR_FLAGS, 2 /* NF_NAT_RANGE_PROTO_SPECIFIED */))}
}
