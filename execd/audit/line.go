package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// maxLine bounds a line, newline included.
const maxLine = 1 << 20

// origin is the prev of the first record of all.
const origin = "sha256:0000000000000000000000000000000000000000000000000000000000000000"

const (
	hashOpen  = `,"hash":"`
	hashClose = `"}`
)

// entry is a line as it is read back.
type entry struct {
	Sequence int64     `json:"seq"`
	Time     time.Time `json:"time"`
	Prev     string    `json:"prev"`
	Type     Type      `json:"type"`
	Exec     string    `json:"exec"`
	Sandbox  string    `json:"sandbox"`
	Hash     string    `json:"hash"`

	Checkpoint *Checkpoint `json:"checkpoint"`
}

// encodeRecord gives the members of a record, from the comma to the last value: the part of a line that doesn't depend on its place.
func encodeRecord(r Record) ([]byte, error) {
	body, err := json.Marshal(r, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return nil, fmt.Errorf("audit: record: %w", err)
	}
	if r.Type == "" || len(body) > maxLine-1024 {
		return nil, fmt.Errorf("audit: record of type %q with %d bytes: want a type and at most %d bytes", r.Type, len(body), maxLine-1024)
	}
	body[0] = ','
	return body[:len(body)-1], nil
}

// appendLine puts a record in its place: it appends the line to buf and gives the line's digest, the next line's prev.
func appendLine(buf []byte, sequence int64, now time.Time, prev string, members []byte) (_ []byte, digest string) {
	start := len(buf)
	buf = append(buf, `{"seq":`...)
	buf = strconv.AppendInt(buf, sequence, 10)
	buf = append(buf, `,"time":"`...)
	buf = now.UTC().AppendFormat(buf, "2006-01-02T15:04:05.000000000Z")
	buf = append(buf, `","prev":"`...)
	buf = append(buf, prev...)
	buf = append(buf, '"')
	buf = append(buf, members...)
	own := digestOf(append(buf[start:], '}'))
	buf = append(buf, hashOpen...)
	buf = append(buf, own...)
	buf = append(buf, hashClose...)
	digest = digestOf(buf[start:])
	return append(buf, '\n'), digest
}

// parseLine reads a line without its newline and holds it against its own hash.
func parseLine(line []byte) (entry, error) {
	var e entry
	if err := json.UnmarshalRead(bytes.NewReader(line), &e); err != nil {
		return e, fmt.Errorf("no record: %w", err)
	}
	cut := len(line) - len(hashClose) - len(origin) - len(hashOpen)
	if cut < 0 || !bytes.HasPrefix(line[cut:], []byte(hashOpen)) {
		return e, errors.New("no hash at its end")
	}
	sum := sha256.New()
	sum.Write(line[:cut])
	sum.Write([]byte{'}'})
	if own := "sha256:" + hex.EncodeToString(sum.Sum(nil)); own != e.Hash {
		return e, errors.New("its bytes don't have the hash that it says: it was changed")
	}
	return e, nil
}

func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}
