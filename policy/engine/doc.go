// Package engine judges a [policy.Request] with Rego. It is the only importer of OPA.
//
//	files ─readBundle─▶ source ─compile─▶ generation ─prove─▶ active      (a broken one never gets there; the last good one stays)
//	Request ─key─▶ cache, else ─document─▶ OPA ─readResult─▶ Decision      (whatever goes wrong on the way denies)
//
// OPA fails open in five ways, each closed in one place and held by a test:
//
//   - a builtin that fails makes its rule undefined: strict builtin errors ([compile]);
//   - a field that is missing makes a negation silent: [document] fills in every field, the input's schema is known to the compiler, and the
//     default bundle wants positive proof;
//   - a misspelt path is an empty result and no error: the path is looked for at load, and an empty result denies;
//   - capabilities are ignored unless the compiler has them: [builtins] is an allow-list, set on every compiler;
//   - a deadline doesn't stop every builtin: [watchdog] denies without waiting, and what Rego sees is at most 256 KiB.
//
// Rego never sees the values of environment variables, nor standard input, code or inputs: names, sizes and digests only, so that no rule can put
// a secret into a message.
package engine
