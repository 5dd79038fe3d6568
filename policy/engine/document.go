package engine

import (
	"encoding/json"
	"strconv"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/sandboxd/sandboxd/policy"
)

// document is the input of Rego: every field is there, whatever was asked. An id that wasn't asked for is null; a limit that is unlimited is 0.
func document(v view) ast.Value {
	r := v.request
	limits := r.Limits.Defaulted()
	return object(
		"action", ast.String(r.Action),
		"sandbox", ast.String(r.Sandbox),
		"image", object("name", ast.String(r.Image.Name), "digest", ast.String(r.Image.Digest)),
		"caller", object("uid", integer(int64(r.Caller.UID)), "gid", integer(int64(r.Caller.GID)), "via", ast.String(r.Caller.Via)),
		"securityContext", contextDocument(r.SecurityContext.Defaulted()),
		"network", networkDocument(r.Network.Defaulted()),
		"command", object(
			"argv", texts(r.Command.Argv),
			"envNames", texts(v.commandEnv),
			"cwd", ast.String(r.Command.Cwd),
			"stdinBytes", integer(int64(v.stdin.size)),
			"stdinDigest", ast.String(v.stdin.String()),
			"leaveChildren", ast.Boolean(r.Command.LeaveChildren),
			"readOnly", ast.Boolean(r.Command.ReadOnly),
			"terminal", ast.Boolean(r.Command.Terminal),
		),
		"program", object(
			"language", ast.String(r.Program.Language),
			"codeBytes", integer(int64(v.code.size)),
			"codeDigest", ast.String(v.code.String()),
			"inputsBytes", integer(int64(v.inputs.size)),
			"inputsDigest", ast.String(v.inputs.String()),
			"envNames", texts(v.programEnv),
			"cwd", ast.String(r.Program.Cwd),
		),
		"file", object(
			"operation", ast.String(r.File.Operation), "path", ast.String(r.File.Path), "mode", id(r.File.Mode),
			"parents", ast.Boolean(r.File.Parents), "follow", ast.Boolean(r.File.Follow), "to", ast.String(r.File.To),
		),
		"limits", object(
			"timeoutSeconds", decimal(limits.TimeoutSeconds),
			"outputBytes", integer(limits.OutputBytes),
			"memoryBytes", integer(limits.MemoryBytes),
			"pids", integer(limits.Pids),
			"cpu", decimal(limits.CPU),
			"cpuSeconds", decimal(limits.CPUSeconds),
			"openFiles", integer(limits.OpenFiles),
			"fileBytes", integer(limits.FileBytes),
		),
	)
}

func contextDocument(c policy.SecurityContext) ast.Value {
	groups := make([]*ast.Term, len(c.SupplementalGroups))
	for i, group := range c.SupplementalGroups {
		groups[i] = ast.NewTerm(integer(group))
	}
	return object(
		"privileged", ast.Boolean(*c.Privileged),
		"allowPrivilegeEscalation", ast.Boolean(*c.AllowPrivilegeEscalation),
		"readOnlyRootFilesystem", ast.Boolean(*c.ReadOnlyRootFilesystem),
		"runAsNonRoot", ast.Boolean(*c.RunAsNonRoot),
		"runAsUser", id(c.RunAsUser),
		"runAsGroup", id(c.RunAsGroup),
		"supplementalGroups", ast.NewArray(groups...),
		"capabilities", object("add", texts(c.Capabilities.Add), "drop", texts(c.Capabilities.Drop)),
		"seccompProfile", object(
			"type", ast.String(c.SeccompProfile.Type),
			"localhostProfile", optionalText(c.SeccompProfile.LocalhostProfile),
		),
		"procMount", ast.String(*c.ProcMount),
	)
}

func networkDocument(spec policy.NetworkSpec) ast.Value {
	rules := make([]*ast.Term, len(spec.Egress))
	for i, rule := range spec.Egress {
		ports := make([]*ast.Term, len(rule.Ports))
		for j, port := range rule.Ports {
			ports[j] = ast.NewTerm(integer(int64(port)))
		}
		rules[i] = ast.NewTerm(object("action", ast.String(rule.Action), "target", ast.String(rule.Target), "ports", ast.NewArray(ports...)))
	}
	return object("defaultAction", ast.String(spec.DefaultAction), "egress", ast.NewArray(rules...), "datagrams", ast.Boolean(spec.Datagrams))
}

// object takes keys and values in turn.
func object(pairs ...any) ast.Value {
	terms := make([][2]*ast.Term, 0, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		terms = append(terms, [2]*ast.Term{ast.InternedTerm(pairs[i].(string)), ast.NewTerm(pairs[i+1].(ast.Value))})
	}
	return ast.NewObject(terms...)
}

func texts(values []string) ast.Value {
	terms := make([]*ast.Term, len(values))
	for i, value := range values {
		terms[i] = ast.StringTerm(value)
	}
	return ast.NewArray(terms...)
}

func integer(value int64) ast.Value {
	return ast.Number(json.Number(strconv.FormatInt(value, 10)))
}

func decimal(value float64) ast.Value {
	return ast.Number(json.Number(strconv.FormatFloat(value, 'f', -1, 64)))
}

func id(value *int64) ast.Value {
	if value == nil {
		return ast.Null{}
	}
	return integer(*value)
}

func optionalText(value *string) ast.Value {
	if value == nil {
		return ast.Null{}
	}
	return ast.String(*value)
}
