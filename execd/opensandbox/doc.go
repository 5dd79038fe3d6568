// Package opensandbox is the façade that OpenSandbox's clients meet: its lifecycle API, its execd and its egress API, over sandboxd's own walks.
//
//	POST   /v1/sandboxes                        parse ─▶ Judge of the whole spec ─▶ MakeSandbox ─▶ 202
//	GET    /v1/sandboxes/{id}/endpoints/{port}  where execd (44772), egress (18080) or a port of the sandbox's own is, with the tokens for it
//	any    /v1/sandboxes/{id}/proxy/{port}/…    these endpoints themselves, on the same listener
//	         44772: POST /command ─▶ parse ─▶ Admit ─▶ Exec ─▶ events            (command.go, stream.go)
//	                POST /code ─▶ parse ─▶ Admit ─▶ CodeContext.Run ─▶ events   (code.go, codecontext.go, codestream.go)
//	         18080: /policy ─▶ PutNetwork, Network                               (egress.go)
//
// A request to the lifecycle API has the key of its owner, one to an endpoint the token of one sandbox. What one owner has isn't there for another.
//
// There are only shapes here, and what clients that poll need to be kept. Decisions are policy's, confinement, proof and record the walk's.
package opensandbox
