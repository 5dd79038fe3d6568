// Package rego holds the default policy bundle: the Kubernetes "restricted" profile as an executable policy, network deny-all, and what a
// command may be and use. Its README says how it is laid out and how to write one's own.
package rego

import "embed"

// Bundle is the default bundle: rules, their tests, data.json and the corpus of decisions.
//
//go:embed data.json main caller context exec file image network limits corpus
var Bundle embed.FS
