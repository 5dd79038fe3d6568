package fence

import (
	"encoding/binary"
	"slices"

	"golang.org/x/sys/unix"
)

// Netlink messages and attributes (netlink(7)): native byte order but for nf_tables' numbers, four-byte alignment.

var native = binary.NativeEndian

// message is one request. Its sequence number is set when it is sent.
func message(kind uint16, flags uint16, body ...[]byte) []byte {
	payload := slices.Concat(body...)
	data := native.AppendUint32(nil, uint32(unix.SizeofNlMsghdr+len(payload)))
	data = native.AppendUint16(data, kind)
	data = native.AppendUint16(data, unix.NLM_F_REQUEST|flags)
	data = append(data, 0, 0, 0, 0, 0, 0, 0, 0) // sequence number, port
	return align(append(data, payload...))
}

func align(data []byte) []byte {
	for len(data)%4 != 0 {
		data = append(data, 0)
	}
	return data
}

// attribute is one with the bytes of its parts in a row, which makes nested ones too.
func attribute(kind uint16, parts ...[]byte) []byte {
	payload := slices.Concat(parts...)
	data := native.AppendUint16(nil, uint16(4+len(payload)))
	data = native.AppendUint16(data, kind)
	return align(append(data, payload...))
}

func text(kind uint16, value string) []byte { return attribute(kind, append([]byte(value), 0)) }

func big32(kind uint16, value uint32) []byte {
	return attribute(kind, binary.BigEndian.AppendUint32(nil, value))
}

func native32(kind uint16, value uint32) []byte {
	return attribute(kind, native.AppendUint32(nil, value))
}

// nlMessage is one message that was read.
type nlMessage struct {
	kind, flags uint16
	sequence    uint32
	port        uint32 // whose request it answers, or tells of
	body        []byte
}

// messages takes a datagram apart. What is cut off is dropped: the caller finds an answer missing.
func messages(data []byte) []nlMessage {
	var all []nlMessage
	for len(data) >= unix.SizeofNlMsghdr {
		length := int(native.Uint32(data))
		if length < unix.SizeofNlMsghdr || length > len(data) {
			break
		}
		all = append(all, nlMessage{kind: native.Uint16(data[4:]), flags: native.Uint16(data[6:]), sequence: native.Uint32(data[8:]),
			port: native.Uint32(data[12:]), body: data[unix.SizeofNlMsghdr:length]})
		data = data[min(len(data), (length+3)&^3):]
	}
	return all
}

// attributes calls visit for each attribute, with the bytes of the whole as well. It says whether they fill the data exactly.
func attributes(data []byte, visit func(kind uint16, payload, whole []byte)) bool {
	for len(data) >= 4 {
		length := int(native.Uint16(data))
		if length < 4 || length > len(data) {
			return false
		}
		end := min(len(data), (length+3)&^3)
		visit(native.Uint16(data[2:])&0x3fff, data[4:length], data[:end]) // without NLA_F_NESTED and NLA_F_NET_BYTEORDER
		data = data[end:]
	}
	return len(data) == 0
}
