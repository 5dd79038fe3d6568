package names

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// serveTCP takes connections, as many at a time as the limit says. One more is reset at once.
func (s *Server) serveTCP(listener *net.TCPListener) error {
	for errorsInARow := 0; ; {
		conn, err := listener.AcceptTCP()
		switch {
		case errors.Is(err, net.ErrClosed), errors.Is(err, unix.EINVAL): // it was closed, or shut down: a fence that is shut for good
			return nil
		case err != nil:
			// Out of descriptors, mostly: it passes, and until then this would be a busy loop.
			if errorsInARow++; errorsInARow == mostReadErrors {
				return fmt.Errorf("names: TCP: %w", err)
			}
			select {
			case <-s.ctx.Done():
			case <-time.After(10 * time.Millisecond):
			}
			continue
		}
		errorsInARow = 0
		select {
		case s.places <- struct{}{}:
			s.wg.Go(func() {
				defer func() { <-s.places }()
				s.converse(conn)
			})
		default:
			_ = conn.SetLinger(0)
			conn.Close()
		}
	}
}

// converse answers the queries of one connection one after the other (RFC 7766). A program that doesn't read its answers, or sends its queries
// byte by byte, is left.
func (s *Server) converse(conn *net.TCPConn) {
	defer conn.Close()
	defer context.AfterFunc(s.ctx, func() { conn.Close() })()
	buffer := make([]byte, 2+mostQuery)
	for {
		if conn.SetDeadline(time.Now().Add(s.config.Limits.Idle)) != nil {
			return
		}
		if _, err := io.ReadFull(conn, buffer[:2]); err != nil {
			return
		}
		length := int(binary.BigEndian.Uint16(buffer))
		if length > mostQuery {
			return
		}
		if _, err := io.ReadFull(conn, buffer[2:2+length]); err != nil {
			return
		}
		reply, q := s.begin(buffer[2 : 2+length])
		if q != nil {
			var ok bool
			if reply, ok = s.claim(q); ok {
				reply = s.finish(q)
			}
		}
		if reply == nil || conn.SetDeadline(time.Now().Add(s.config.Limits.Idle)) != nil {
			return
		}
		if _, err := conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(reply))), reply...)); err != nil {
			return
		}
	}
}
