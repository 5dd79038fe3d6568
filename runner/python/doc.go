// Package python is both ends of `run`: it hands a program to a CPython interpreter and reads the value back.
//
//	daemon                                    interpreter (confined, as any child)
//	driver.py, job: sealed memfds ──────────▶ python3 -I -u -X utf8 -c "execute descriptor N" N+1 N+2
//	                                          binds inputs and _return, runs the code
//	one frame on a pipe ◀──────────────────── the value of _return: JSON, its repr, or why there is none
//	[ReadResult]: trusts nothing of it
//
// The driver may go with its own code as an interpreter has compiled it ([Compiled]), for those of the same kind.
//
// Nothing is written into the sandbox's root, and nothing of the program is in argv or the environment, which others may read and the kernel
// limits. The pipe is close-on-exec from the driver's first line on, so that no program that the code starts holds it. A process that the code
// forked can't send the value through the driver; one that writes to the descriptor itself forges nothing but its own program's value.
//
// [Cells] is the other driver, of an interpreter that is kept and runs one cell of code after another:
//
//	a cell's code, on a SOCK_SEQPACKET socket ──▶ runs it in the names that the cells before have left
//	results, an exception, its end ◀───────────── each packet with its sender's pid, by the kernel
//	[Cells.Next]: takes the interpreter's own, and trusts nothing of them
package python
