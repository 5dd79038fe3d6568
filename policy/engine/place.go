package engine

import (
	"bytes"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"fmt"
	"io"
)

// validJSON wants one value in UTF-8 without duplicate names; an error says where it isn't.
func validJSON(content []byte) error {
	decoder := jsontext.NewDecoder(bytes.NewReader(content))
	if _, err := decoder.ReadValue(); err != nil {
		return fmt.Errorf("not one JSON value in UTF-8 without duplicate names: %w", err)
	}
	if _, err := decoder.ReadToken(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("not one JSON value: more after it at byte %d", decoder.InputOffset())
	}
	return nil
}

// faultLine is the line of a JSON text that an error of its decoder is about; 0 when it doesn't say.
func faultLine(content []byte, err error) int {
	if syntactic, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return lineAt(content, syntactic.ByteOffset)
	}
	if semantic, ok := errors.AsType[*json.SemanticError](err); ok {
		return lineAt(content, semantic.ByteOffset)
	}
	return 0
}

func lineAt(content []byte, offset int64) int {
	return 1 + bytes.Count(content[:min(max(offset, 0), int64(len(content)))], []byte("\n"))
}

// memberLines says in which line each member and each element of a JSON text begins, by its pointer.
func memberLines(content []byte) map[jsontext.Pointer]int {
	lines := map[jsontext.Pointer]int{}
	decoder := jsontext.NewDecoder(bytes.NewReader(content))
	for {
		if _, err := decoder.ReadToken(); err != nil {
			return lines
		}
		if pointer := decoder.StackPointer(); lines[pointer] == 0 {
			lines[pointer] = lineAt(content, decoder.InputOffset())
		}
	}
}
