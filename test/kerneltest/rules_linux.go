package kerneltest

import (
	"encoding/binary"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// FlushRules takes every nf_tables rule of the calling thread's network namespace away, as somebody with privilege might. Never call it in the host's.
func FlushRules() error { return changeRules(unix.NFT_MSG_DELTABLE, 0, unix.AF_UNSPEC, nil) }

// AdmitEverything adds an interval to the set of a fence in the calling thread's network namespace that has all IPv4 addresses behind 200.0.0.0.
func AdmitEverything() error {
	attribute := func(kind uint16, parts ...[]byte) []byte {
		payload := slices.Concat(parts...)
		data := binary.NativeEndian.AppendUint16(nil, uint16(4+len(payload)))
		data = append(binary.NativeEndian.AppendUint16(data, kind), payload...)
		return append(data, make([]byte, -len(data)&3)...)
	}
	const table, set, elements, element, key, value = 1, 2, 3, 1, 1, 1 // NFTA_SET_ELEM_LIST_TABLE and so on
	return changeRules(unix.NFT_MSG_NEWSETELEM, unix.NLM_F_CREATE, unix.NFPROTO_INET, slices.Concat(
		attribute(table, []byte("sandboxd\x00")), attribute(set, []byte("reach4\x00")),
		attribute(elements, attribute(element, attribute(key, attribute(value, []byte{200, 0, 0, 0}))))))
}

// changeRules sends one message to nf_tables.
func changeRules(kind, flags uint16, family byte, attributes []byte) error {
	socket, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
	if err != nil {
		return err
	}
	defer unix.Close(socket)
	const nfTables = 10 // NFNL_SUBSYS_NFTABLES
	message := func(kind, flags uint16, family, resource byte, body []byte) []byte {
		data := binary.NativeEndian.AppendUint32(nil, uint32(unix.SizeofNlMsghdr+4+len(body)))
		data = binary.NativeEndian.AppendUint16(data, kind)
		data = binary.NativeEndian.AppendUint16(data, unix.NLM_F_REQUEST|flags)
		return append(append(data, 0, 0, 0, 0, 0, 0, 0, 0, family, 0, 0, resource), body...)
	}
	batch := slices.Concat(message(unix.NFNL_MSG_BATCH_BEGIN, 0, unix.AF_UNSPEC, nfTables, nil), message(nfTables<<8|kind, flags|unix.NLM_F_ACK, family, 0, attributes),
		message(unix.NFNL_MSG_BATCH_END, 0, unix.AF_UNSPEC, nfTables, nil))
	return told(socket, batch)
}

// DeleteRoutes takes those routes away again, in the calling thread's network namespace, that messages to rtnetlink make.
func DeleteRoutes(messages [][]byte) error {
	socket, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer unix.Close(socket)
	for _, message := range messages {
		if binary.NativeEndian.Uint16(message[4:]) != unix.RTM_NEWROUTE {
			continue
		}
		message = slices.Clone(message)
		binary.NativeEndian.PutUint16(message[4:], unix.RTM_DELROUTE)
		binary.NativeEndian.PutUint16(message[6:], unix.NLM_F_REQUEST|unix.NLM_F_ACK)
		if err := told(socket, message); err != nil {
			return err
		}
	}
	return nil
}

// told sends a request, and gives the kernel's answer to it.
func told(socket int, request []byte) error {
	if err := unix.Sendto(socket, request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	answer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(socket, answer, 0)
	if err != nil || n < unix.SizeofNlMsghdr+4 {
		return fmt.Errorf("netlink: %d bytes, %w", n, err)
	}
	if errno := int32(binary.NativeEndian.Uint32(answer[unix.SizeofNlMsghdr:])); errno != 0 {
		return unix.Errno(-errno)
	}
	return nil
}
