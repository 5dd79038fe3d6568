// Package file is one operation on a file of a sandbox, done inside of it by a child that is confined like any other: our own binary in the mode
// "file" (runner, modes). The daemon never opens a name that something in the sandbox can change under it.
//
//	daemon                                          child
//	argv[2]: Order as JSON                 ──────▶  open the base, resolve the path beneath it, act
//	write: frames of content, then an end  ──────▶  descriptor 3
//	read: header, then content             ◀──────  descriptor 3
//	Result as JSON                         ◀──────  stdout; exit status 0, or 1 with a Fault in it
//
// Nothing on the way is followed: no symbolic link, no magic link, no "..", no mount. The base is the root of a mount, from which a directory
// can't be moved away; so whatever a hostile program renames meanwhile, what is found lies beneath the base.
//
// An order that says Follow is another matter: its path means what it means to a command of the sandbox, links, ".." and mounts included. What it may
// reach is what such a command may, since the child is confined as one: a link can lead it nowhere that a program of the sandbox couldn't go itself. Even
// so each operation acts on what it has opened, never on a name that it has looked at, and replaces whole files or nothing.
package file
