// Package agentsandbox is the façade that the clients and the router of Kubernetes' agent-sandbox meet in a pod: the file and runtime REST API and
// ProcessService of its portable runtime, and the API of its older Python runtime, over sandboxd's own walks.
//
//	POST   /execute, /upload  GET /download, /list, /exists   the older runtime        (runtime.go)
//	GET, HEAD, PUT, DELETE    /v1/files/{path}                files                    (files.go)
//	GET    /v1/health, /v1/metadata
//	POST   /process.v1.ProcessService/…                       gRPC, on the same port   (grpc.go, process.go)
//
// All of a façade's commands and files are in one sandbox, as in a pod of agent-sandbox: the container whose launcher has connected, or where the daemon
// makes its sandboxes itself, one that lives as long as the façade (place.go).
//
// gRPC is framing over HTTP/2 (grpc.go) and a handful of messages (wire.go), whose numbers are those of the documented protocol process.v1; what a client
// says in a field that isn't known here is refused, not ignored.
//
// There are only shapes here. Decisions are policy's, confinement, proof and record the walk's.
package agentsandbox
