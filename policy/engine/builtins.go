package engine

import (
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
)

// builtins is what a policy may call: functions of their arguments alone, whose work is bounded by the size of the input. It is an allow-list, so
// that a builtin of a later OPA waits here for a person. Left out on purpose:
//
//   - http.send, net.lookup_ip_addr, opa.runtime, time.now_ns, rand.intn, uuid.rfc4122, io.jwt.*: they look outside or answer differently each time;
//   - bits.lsh: bits.lsh(1, 2^27) ran 62 s, and no deadline stops it;
//   - graph.reachable_paths, net.cidr_expand, strings.render_template, yaml.*, graphql.*, crypto.x509.*: small input, unbounded work;
//   - json.match_schema, json.verify_schema: a schema may name a URL;
//   - rego.parse_module, trace, print: nothing for a decision.
var builtins = []string{
	// Operators and what the compiler itself writes.
	"eq", "assign", "equal", "neq", "gt", "gte", "lt", "lte", "internal.member_2", "internal.member_3", "internal.print", "internal.test_case",
	"internal.template_string", "plus", "minus", "mul", "div", "rem", "and", "or",
	// Numbers.
	"abs", "ceil", "floor", "round", "bits.and", "bits.or", "bits.negate", "bits.xor", "bits.rsh", "numbers.range", "numbers.range_step",
	"to_number", "format_int", "units.parse", "units.parse_bytes",
	// Collections.
	"count", "sum", "product", "max", "min", "sort", "intersection", "union", "array.concat", "array.flatten", "array.slice", "array.reverse",
	"object.get", "object.keys", "object.subset", "object.union", "object.union_n", "object.remove", "object.filter", "json.filter", "json.remove",
	"json.patch", "walk", "graph.reachable",
	// Text.
	"concat", "contains", "endswith", "startswith", "indexof", "indexof_n", "lower", "upper", "replace", "split", "strings.split_n", "sprintf",
	"substring", "trim", "trim_left", "trim_prefix", "trim_right", "trim_suffix", "trim_space", "strings.any_prefix_match",
	"strings.any_suffix_match", "strings.count", "strings.replace_n", "strings.reverse", "regex.match", "regex.is_valid", "regex.split",
	"regex.find_n", "regex.find_all_string_submatch_n", "regex.replace", "regex.template_match", "glob.match", "glob.quote_meta",
	// Encodings and digests.
	"json.marshal", "json.marshal_with_options", "json.unmarshal", "json.is_valid", "base64.encode", "base64.decode", "base64.is_valid",
	"base64url.encode", "base64url.encode_no_pad", "base64url.decode", "hex.encode", "hex.decode", "urlquery.encode", "urlquery.decode",
	"uri.parse", "uri.is_valid", "crypto.sha256", "semver.compare", "semver.is_valid",
	// Addresses.
	"net.cidr_contains", "net.cidr_contains_matches", "net.cidr_intersects", "net.cidr_is_valid", "net.cidr_merge",
	// Types and metadata.
	"is_array", "is_boolean", "is_null", "is_number", "is_object", "is_set", "is_string", "type_name", "rego.metadata.chain", "rego.metadata.rule",
}

// capabilities is this OPA's with builtins only and no host to talk to.
func capabilities() *ast.Capabilities {
	all := ast.CapabilitiesForThisVersion()
	all.Builtins = slices.DeleteFunc(slices.Clone(all.Builtins), func(builtin *ast.Builtin) bool {
		return builtin.IsNondeterministic() || !slices.Contains(builtins, builtin.Name)
	})
	all.AllowNet = []string{}
	return all
}
