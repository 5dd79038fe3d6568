package policy

import (
	"encoding/json/jsontext"
	json "encoding/json/v2"
	"errors"
	"reflect"
	"strconv"
	"strings"
)

// errNull is what the decoder answers to a null. Nothing on the wire but the inputs of a program may be null: a null that reads as "not
// asked" in one place and as an empty element in another is how a list comes to hold something that nobody wrote.
var errNull = errors.New("null isn't a value here; leave the field out instead")

// refuseNull looks at each value before it is decoded. It matches every type, since every type is assignable to any.
var refuseNull = json.UnmarshalFromFunc(func(dec *jsontext.Decoder, _ any) error {
	if dec.PeekKind() == 'n' {
		return errNull
	}
	return errors.ErrUnsupported
})

// decode reads one JSON value into a zero value, strictly: keys are matched by case, an unknown or duplicate key, a null, text that isn't
// UTF-8 and anything after the value are faults. Field paths in the fault begin with prefix.
func decode(data []byte, into any, prefix string) *FieldError {
	err := json.Unmarshal(data, into, json.RejectUnknownMembers(true), json.WithUnmarshalers(refuseNull))
	if err == nil {
		return nil
	}
	return decodeFault(err, reflect.TypeOf(into).Elem(), prefix)
}

// decodeFault turns the decoder's word into ours.
func decodeFault(err error, root reflect.Type, prefix string) *FieldError {
	if syntactic, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		field, _ := fieldPath(syntactic.JSONPointer, root, prefix)
		switch {
		case errors.Is(err, jsontext.ErrDuplicateName):
			return faultf(field, "duplicate key")
		case syntactic.Err == nil:
			return notJSONf(field, "not JSON")
		}
		return notJSONf(field, "not JSON: %s at byte %d", printable(syntactic.Err.Error()), syntactic.ByteOffset)
	}
	semantic, ok := errors.AsType[*json.SemanticError](err)
	if !ok {
		return notJSONf(prefix, "not JSON: %s", printable(err.Error()))
	}
	field, typ := fieldPath(semantic.JSONPointer, root, prefix)
	switch {
	case errors.Is(err, errNull):
		return faultf(field, "%v", errNull)
	case errors.Is(err, json.ErrUnknownName):
		return unknownField(field, semantic.JSONPointer.LastToken(), semantic.GoType)
	case errors.Is(err, strconv.ErrRange):
		return faultf(field, "%s is out of range", clip(string(semantic.JSONValue)))
	case errors.Is(err, strconv.ErrSyntax):
		return faultf(field, "%s isn't a whole number written with digits alone", clip(string(semantic.JSONValue)))
	case semantic.Err != nil && semantic.JSONKind == '"' && isBytes(typ):
		return faultf(field, "not base64: %s", printable(semantic.Err.Error()))
	}
	return faultf(field, "want %s, got %s", kindOfType(typ), kindOfJSON(semantic.JSONKind))
}

// deepestPath is how many levels an error repeats; ours are fewer, inputs may have thousands.
const deepestPath = 16

// fieldPath turns a JSON pointer into a path, and says which Go type is there. The types tell the index of a list from a key of digits.
func fieldPath(pointer jsontext.Pointer, root reflect.Type, prefix string) (string, reflect.Type) {
	path, typ := prefix, root
	level := 0
	for token := range pointer.Tokens() {
		if level++; level > deepestPath {
			return path + "…", nil
		}
		for typ != nil && typ.Kind() == reflect.Pointer {
			typ = typ.Elem()
		}
		var kind reflect.Kind
		if typ != nil {
			kind = typ.Kind()
		}
		switch kind {
		case reflect.Slice:
			path, typ = path+"["+token+"]", typ.Elem()
		case reflect.Struct:
			path, typ = member(path, token), typeOfMember(typ, token)
		case reflect.Map:
			path, typ = member(path, token), typ.Elem()
		default:
			path, typ = member(path, token), nil
		}
	}
	for typ != nil && typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	return path, typ
}

// jsonNames lists the keys of a struct, embedded ones too, in order, with their types.
func jsonNames(typ reflect.Type) (names []string, types []reflect.Type) {
	for _, field := range reflect.VisibleFields(typ) {
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" && !field.Anonymous {
			names, types = append(names, name), append(types, field.Type)
		}
	}
	return names, types
}

func typeOfMember(typ reflect.Type, key string) reflect.Type {
	names, types := jsonNames(typ)
	for i, name := range names {
		if name == key {
			return types[i]
		}
	}
	return nil
}

// unknownField names the nearest key, or says of a key that Kubernetes knows that it can't be held here.
func unknownField(field, key string, typ reflect.Type) *FieldError {
	if typ == reflect.TypeFor[SecurityContext]() && notEnforced[key] {
		return faultf(field, "not enforced here; remove it")
	}
	fault := faultf(field, "unknown field")
	if typ == nil || typ.Kind() != reflect.Struct {
		return fault
	}
	names, _ := jsonNames(typ)
	if fault.Nearest = Nearest(key, names); fault.Nearest == "" {
		fault.Message = "unknown field, want one of " + strings.Join(names, ", ")
	}
	return fault
}

func isBytes(typ reflect.Type) bool {
	return typ != nil && typ.Kind() == reflect.Slice && typ.Elem().Kind() == reflect.Uint8
}

func kindOfType(typ reflect.Type) string {
	if typ == nil {
		return "another kind of value"
	}
	if isBytes(typ) {
		return "a string of base64"
	}
	switch typ.Kind() {
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Slice:
		return "a list"
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Float64:
		return "a number"
	default:
		return "a whole number"
	}
}

func kindOfJSON(kind jsontext.Kind) string {
	switch kind {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "a string"
	case 't', 'f':
		return "true or false"
	case '0':
		return "a number"
	case 'n':
		return "null"
	default:
		return "something else"
	}
}

// clip cuts a number that an error repeats: it is ASCII, and may be megabytes.
func clip(number string) string {
	if len(number) > longestQuote {
		return number[:longestQuote] + "…"
	}
	return number
}

// printable makes the decoder's own words fit for a terminal and a log: they may repeat bytes of the body.
func printable(text string) string {
	if len(text) > 2*longestQuote {
		text = text[:2*longestQuote] + "…"
	}
	return strings.Map(func(r rune) rune {
		if strconv.IsPrint(r) && r != '\uFFFD' {
			return r
		}
		return '?'
	}, text)
}
