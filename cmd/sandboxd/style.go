package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// isTerminal asks the kernel.
func isTerminal(file *os.File) bool {
	_, err := unix.IoctlGetTermios(int(file.Fd()), unix.TCGETS)
	return err == nil
}

// style colours words on a terminal and leaves them alone elsewhere, or when NO_COLOR is set (no-color.org).
type style struct{ on bool }

func (p *program) style(file *os.File) style {
	return style{on: isTerminal(file) && p.getenv("NO_COLOR") == "" && p.getenv("TERM") != "dumb"}
}

func (s style) good(text string) string  { return s.wrap("32", text) }
func (s style) bad(text string) string   { return s.wrap("31", text) }
func (s style) quiet(text string) string { return s.wrap("2", text) }
func (s style) bold(text string) string  { return s.wrap("1", text) }

func (s style) wrap(code, text string) string {
	if !s.on {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}
