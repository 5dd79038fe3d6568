package seccomp

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
)

const rowSize = 8 // of struct sock_filter

// Bytes is the program as the kernel takes it and gives it back: struct sock_filter[], little-endian on both of our architectures.
func (p Program) Bytes() []byte {
	b := make([]byte, 0, len(p)*rowSize)
	for _, in := range p {
		b = binary.LittleEndian.AppendUint16(b, in.Code)
		b = append(b, in.JT, in.JF)
		b = binary.LittleEndian.AppendUint32(b, in.K)
	}
	return b
}

// FromBytes reads a program from the kernel's bytes. It need not be valid.
func FromBytes(b []byte) (Program, error) {
	if len(b)%rowSize != 0 || len(b) > maxInstructions*rowSize {
		return nil, fmt.Errorf("seccomp: program of %d bytes: want a multiple of %d, at most %d", len(b), rowSize, maxInstructions*rowSize)
	}
	p := make(Program, 0, len(b)/rowSize)
	for ; len(b) > 0; b = b[rowSize:] {
		p = append(p, Instruction{Code: binary.LittleEndian.Uint16(b), JT: b[2], JF: b[3], K: binary.LittleEndian.Uint32(b[4:])})
	}
	return p, nil
}

// Digest is "sha256:" and the hexadecimal SHA-256 of Bytes.
func (p Program) Digest() string {
	sum := sha256.Sum256(p.Bytes())
	return "sha256:" + hex.EncodeToString(sum[:])
}

// MarshalText is the JSON form: base64 of Bytes. The launcher reads it without any JSON of ours.
func (p Program) MarshalText() ([]byte, error) {
	return base64.StdEncoding.AppendEncode(nil, p.Bytes()), nil
}

// UnmarshalText reads MarshalText's form; a program that the kernel would refuse is an error. Empty is no program.
func (p *Program) UnmarshalText(text []byte) error {
	b, err := base64.StdEncoding.Strict().AppendDecode(nil, text)
	if err != nil {
		return fmt.Errorf("seccomp: program: %w", err)
	}
	read, err := FromBytes(b)
	if err != nil {
		return err
	}
	if len(read) == 0 {
		*p = nil
		return nil
	}
	if err := read.Validate(); err != nil {
		return err
	}
	*p = read
	return nil
}
