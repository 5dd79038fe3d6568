package network

import (
	"encoding/binary"
	"io"
	"net"
)

// What of PostgreSQL's protocol, version 3, a client needs for one query after the other. (PostgreSQL documentation, "Message Formats".)
const (
	sslRequest    = 80877103
	gssEncRequest = 80877104
)

// answerQueries lets everybody in and answers every query with one row of one column: the query.
func answerQueries(conn net.Conn) {
	for {
		body, err := body(conn)
		if err != nil || len(body) < 4 {
			return
		}
		if code := binary.BigEndian.Uint32(body); code != sslRequest && code != gssEncRequest {
			break // start-up
		}
		if _, err := conn.Write([]byte("N")); err != nil {
			return
		}
	}
	ready := message('Z', []byte("I"))
	greeting := append(message('R', make([]byte, 4)), message('S', []byte("server_version\x0015.0\x00"))...)
	greeting = append(greeting, message('S', []byte("client_encoding\x00UTF8\x00"))...)
	if _, err := conn.Write(append(greeting, ready...)); err != nil {
		return
	}
	kind := make([]byte, 1)
	for {
		if _, err := io.ReadFull(conn, kind); err != nil {
			return
		}
		body, err := body(conn)
		if err != nil || kind[0] == 'X' {
			return
		}
		if kind[0] != 'Q' || len(body) == 0 {
			continue
		}
		query := body[:len(body)-1] // a zero ends it
		// One column "query" of type text.
		column := append([]byte("\x00\x01query\x00"), 0, 0, 0, 0, 0, 0, 0, 0, 0, 25, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0)
		row := append(binary.BigEndian.AppendUint32([]byte{0, 1}, uint32(len(query))), query...)
		reply := append(message('T', column), message('D', row)...)
		reply = append(append(reply, message('C', []byte("SELECT 1\x00"))...), ready...)
		if _, err := conn.Write(reply); err != nil {
			return
		}
	}
}

func message(kind byte, body []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{kind}, uint32(4+len(body))), body...)
}

// body is what follows a length that counts itself.
func body(conn net.Conn) ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(conn, length[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(length[:])
	if n < 4 || n > 1<<20 {
		return nil, io.ErrUnexpectedEOF
	}
	body := make([]byte, n-4)
	_, err := io.ReadFull(conn, body)
	return body, err
}
