// Command sandboxd decides, confines, proves, records and runs code that nobody trusts: as a daemon (serve) or, without one, for a single
// command (exec, run). This folder is wiring: flags, the two ways to reach a service, and how an answer looks on a terminal.
package main

import "os"

func main() {
	program := program{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, getenv: os.Getenv}
	os.Exit(program.run(os.Args[1:]))
}
