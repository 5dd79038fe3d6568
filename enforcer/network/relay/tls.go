package relay

import "errors"

// tlsLook follows the client's side of a TLS handshake to where the server name can't change any more.
type tlsLook struct {
	c *conn
	// greeted: the first hello has passed. early: it announced early data, behind which a second hello may come at any record.
	greeted, early bool
}

func (l *tlsLook) scan(b []byte) (step, error) {
	passed := 0
	if !l.greeted {
		h, n, err := parseHello(b)
		if errors.Is(err, errShort) {
			return step{}, nil
		}
		if err != nil {
			return step{}, err
		}
		if err := l.c.fitsHello(h); err != nil {
			return step{}, err
		}
		l.greeted, l.early, passed = true, h.early, n
	}
	for {
		n, skip, done, err := l.after(b[passed:])
		passed += n
		switch {
		case errors.Is(err, errShort):
			return step{pass: passed}, nil
		case err != nil:
			return step{pass: passed}, err
		case done, skip > 0: // what is skipped may end this very read
			return step{pass: passed, skip: skip, done: done}, nil
		}
	}
}

// after looks at one record behind the hello. The server may ask for a second hello (HelloRetryRequest, RFC 8446 §4.1.4): that is then the client's
// next record, but for change_cipher_spec, alerts that a server overlooks, and early data. Any other record means that the first was the only one.
func (l *tlsLook) after(b []byte) (pass int, skip int64, done bool, err error) {
	if len(b) < recordHeader+1 {
		return 0, 0, false, errShort
	}
	length := int(b[3])<<8 | int(b[4])
	switch b[0] {
	case recordHandshake:
		if length == 0 {
			return 0, 0, false, refuse(reasonBadHello)
		}
		if b[recordHeader] != handshakeHello {
			return 0, 0, true, nil
		}
		h, n, err := parseHello(b)
		if err == nil {
			err = l.c.fitsHello(h)
		}
		if err != nil {
			return 0, 0, false, err
		}
		return n, 0, !l.early, nil
	case recordChange, recordAlert:
		return recordHeader, int64(length), false, nil
	case recordApplication:
		if !l.early {
			return 0, 0, true, nil
		}
		return recordHeader, int64(length), false, nil
	}
	return 0, 0, false, refuse(reasonBadHello)
}

// fitsHello judges what a hello says.
func (c *conn) fitsHello(h hello) error {
	switch {
	case h.encrypted:
		return refuse(reasonECH)
	case h.serverName == "" && c.target.name != "":
		return refuse(reasonNoName)
	case h.serverName == "":
		return nil
	}
	said, ok := parseHost(h.serverName)
	if !ok || said.port != 0 || h.serverName[len(h.serverName)-1] == '.' {
		return refuse(reasonBadHello)
	}
	return c.fits(said, reasonOtherName)
}
