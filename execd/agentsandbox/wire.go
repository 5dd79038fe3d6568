package agentsandbox

import (
	"cmp"
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// field is one of a message, as it came.
type field struct {
	number protowire.Number
	kind   protowire.Type
	value  uint64
	bytes  []byte
}

// fieldsOf takes a message apart.
func fieldsOf(message string, data []byte) (fields []field, err error) {
	for len(data) > 0 {
		number, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return nil, fmt.Errorf("%s: %w", message, protowire.ParseError(n))
		}
		data = data[n:]
		f := field{number: number, kind: kind}
		switch kind {
		case protowire.VarintType:
			f.value, n = protowire.ConsumeVarint(data)
		case protowire.BytesType:
			f.bytes, n = protowire.ConsumeBytes(data)
		default:
			return nil, unknown(message, f)
		}
		if n < 0 {
			return nil, fmt.Errorf("%s: field %d: %w", message, number, protowire.ParseError(n))
		}
		fields, data = append(fields, f), data[n:]
	}
	return fields, nil
}

// unknown refuses a field: what it is meant to change would not be.
func unknown(message string, f field) error {
	return fmt.Errorf("%s: field %d isn't known here in that form", message, f.number)
}

// processConfig is what a client wants to run.
type processConfig struct {
	command []string
	env     map[string]string
	cwd     string
}

func (c *processConfig) decode(data []byte) error {
	const name = "ProcessConfig"
	fields, err := fieldsOf(name, data)
	if err != nil {
		return err
	}
	c.env = map[string]string{}
	for _, f := range fields {
		switch {
		case f.kind != protowire.BytesType:
			return unknown(name, f)
		case f.number == 1:
			c.command = append(c.command, string(f.bytes))
		case f.number == 2:
			if err := decodeEntry(c.env, f.bytes); err != nil {
				return err
			}
		case f.number == 3:
			c.cwd = string(f.bytes)
		default:
			return unknown(name, f)
		}
	}
	return nil
}

// decodeEntry is one of a map of strings.
func decodeEntry(into map[string]string, data []byte) error {
	const name = "EnvVarsEntry"
	fields, err := fieldsOf(name, data)
	if err != nil {
		return err
	}
	var entry [2]string
	for _, f := range fields {
		if f.kind != protowire.BytesType || f.number > 2 {
			return unknown(name, f)
		}
		entry[f.number-1] = string(f.bytes)
	}
	into[entry[0]] = entry[1]
	return nil
}

// startRequest is that of Execute too, which has no terminal.
type startRequest struct {
	config   processConfig
	terminal *size
}

// size is that of a terminal; 0 is what isn't said.
type size struct{ columns, rows uint64 }

func (r *startRequest) decode(name string, data []byte, start bool) error {
	fields, err := fieldsOf(name, data)
	if err != nil {
		return err
	}
	for _, f := range fields {
		switch {
		case f.kind == protowire.BytesType && f.number == 1:
			if err := r.config.decode(f.bytes); err != nil {
				return err
			}
		case start && f.kind == protowire.BytesType && f.number == 2:
			r.terminal = &size{}
			if err := r.terminal.decode(f.bytes); err != nil {
				return err
			}
		default:
			return unknown(name, f)
		}
	}
	return nil
}

func (s *size) decode(data []byte) error {
	const name = "PTY"
	fields, err := fieldsOf(name, data)
	if err != nil {
		return err
	}
	for _, f := range fields {
		switch {
		case f.kind == protowire.VarintType && f.number == 1:
			s.columns = f.value
		case f.kind == protowire.VarintType && f.number == 2:
			s.rows = f.value
		default:
			return unknown(name, f)
		}
	}
	return nil
}

// checked is the size in a terminal's own numbers; what isn't said is otherwise.
func (s size) checked(columns, rows uint16) (uint16, uint16, error) {
	if s.columns > math.MaxUint16 || s.rows > math.MaxUint16 {
		return 0, 0, fmt.Errorf("a terminal of %d columns and %d rows: want at most %d of each", s.columns, s.rows, math.MaxUint16)
	}
	return cmp.Or(uint16(s.columns), columns), cmp.Or(uint16(s.rows), rows), nil
}

// processRequest is one of the calls about a process that runs: 2 is the input, the signal or the columns.
type processRequest struct {
	id    int32
	input []byte
	eof   bool
	// number is the signal.
	number uint64
	size   size
}

func (r *processRequest) decode(name string, data []byte) error {
	fields, err := fieldsOf(name, data)
	if err != nil {
		return err
	}
	for _, f := range fields {
		switch {
		case f.number == 1 && f.kind == protowire.VarintType:
			if f.value > math.MaxInt32 {
				return fmt.Errorf("%s: process_id: want a positive number", name)
			}
			r.id = int32(f.value)
		case name == "WriteStdinRequest" && f.number == 2 && f.kind == protowire.BytesType:
			r.input, r.eof = f.bytes, false
		case name == "WriteStdinRequest" && f.number == 3 && f.kind == protowire.BytesType && len(f.bytes) == 0:
			r.input, r.eof = nil, true
		case name == "SendSignalRequest" && f.number == 2 && f.kind == protowire.VarintType:
			r.number = f.value
		case name == "ResizeTTYRequest" && f.number == 2 && f.kind == protowire.VarintType:
			r.size.columns = f.value
		case name == "ResizeTTYRequest" && f.number == 3 && f.kind == protowire.VarintType:
			r.size.rows = f.value
		default:
			return unknown(name, f)
		}
	}
	return nil
}

// appendInt32 adds a field of a number; 0 is left out, as the protocol has it.
func appendInt32(data []byte, number protowire.Number, value int) []byte {
	if value == 0 {
		return data
	}
	return protowire.AppendVarint(protowire.AppendTag(data, number, protowire.VarintType), uint64(int64(int32(value))))
}

func appendBytes(data []byte, number protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(data, number, protowire.BytesType), value)
}

// executeResponse is how a command ended, with all of its output.
func executeResponse(exit int, stdout, stderr []byte) []byte {
	return appendBytes(appendBytes(appendInt32(nil, 1, exit), 2, stdout), 3, stderr)
}

// The events of a command that is streamed. In a oneof an empty message is said too.
func initEvent(id int32) []byte { return appendBytes(nil, 1, appendInt32(nil, 1, int(id))) }
func exitEvent(exit int) []byte { return appendBytes(nil, 4, appendInt32(nil, 1, exit)) }

func outputEvent(stream string, data []byte) []byte {
	if stream == "stdout" {
		return appendBytes(nil, 2, data)
	}
	return appendBytes(nil, 3, data)
}
