// Package script runs programs of other languages than Python through the door of `run`: bash and Node.
//
//	descriptor 3   the job: bash: the code alone; node: 8 bytes of the code's length, then code and inputs
//	descriptor 4   the inputs, as the text that came (bash)
//	descriptor 5   the value, one way to the daemon
//
// bash is told 4 and 5 in SANDBOXD_INPUTS_FD and SANDBOXD_RESULT_FD and writes its value as one JSON text, which ends when the run does; node has a
// driver, which binds inputs and _return as the one for Python does, and sends its frame. docs/run.md says it to users.
package script
