package engine

import "github.com/open-policy-agent/opa/v1/ast"

// inputSchema is the type of [document], for the compiler: a rule that names a field that isn't there, and so would never fire, doesn't load.
func inputSchema() *ast.SchemaSet {
	set := ast.NewSchemaSet()
	set.Put(ast.SchemaRootRef, inputFields)
	return set
}

var (
	aText       = map[string]any{"type": "string"}
	aNumber     = map[string]any{"type": "number"}
	aTruth      = map[string]any{"type": "boolean"}
	aNull       = map[string]any{"type": "null"}
	anID        = map[string]any{"anyOf": []any{aNumber, aNull}}
	someTexts   = list(aText)
	someNumbers = list(aNumber)
)

var inputFields = fields(map[string]any{
	"action":  aText,
	"sandbox": aText,
	"image":   fields(map[string]any{"name": aText, "digest": aText}),
	"caller":  fields(map[string]any{"uid": aNumber, "gid": aNumber, "via": aText}),
	"securityContext": fields(map[string]any{
		"privileged": aTruth, "allowPrivilegeEscalation": aTruth, "readOnlyRootFilesystem": aTruth, "runAsNonRoot": aTruth,
		"runAsUser": anID, "runAsGroup": anID, "supplementalGroups": someNumbers,
		"capabilities":   fields(map[string]any{"add": someTexts, "drop": someTexts}),
		"seccompProfile": fields(map[string]any{"type": aText, "localhostProfile": map[string]any{"anyOf": []any{aText, aNull}}}),
		"procMount":      aText,
	}),
	"network": fields(map[string]any{
		"defaultAction": aText,
		"datagrams":     aTruth,
		"egress":        list(fields(map[string]any{"action": aText, "target": aText, "ports": someNumbers})),
	}),
	"command": fields(map[string]any{"argv": someTexts, "envNames": someTexts, "cwd": aText, "leaveChildren": aTruth, "readOnly": aTruth, "stdinBytes": aNumber, "stdinDigest": aText, "terminal": aTruth}),
	"program": fields(map[string]any{
		"language": aText, "codeBytes": aNumber, "codeDigest": aText, "inputsBytes": aNumber, "inputsDigest": aText, "envNames": someTexts,
		"cwd": aText,
	}),
	"file": fields(map[string]any{"operation": aText, "path": aText, "mode": anID, "parents": aTruth, "follow": aTruth, "to": aText}),
	"limits": fields(map[string]any{
		"timeoutSeconds": aNumber, "outputBytes": aNumber, "memoryBytes": aNumber, "pids": aNumber, "cpu": aNumber, "cpuSeconds": aNumber,
		"openFiles": aNumber, "fileBytes": aNumber,
	}),
})

func fields(properties map[string]any) map[string]any {
	return map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
}

func list(of any) map[string]any { return map[string]any{"type": "array", "items": of} }
