package file

import (
	"errors"

	"golang.org/x/sys/unix"
)

// faultOf turns an error of the kernel into words. fd is a directory or file of the file system that it happened on, or -1.
func faultOf(err error, fd int) *Fault {
	var fault *Fault
	if errors.As(err, &fault) {
		return fault
	}
	var errno unix.Errno
	if !errors.As(err, &errno) {
		return &Fault{Code: Failed, Message: err.Error()}
	}
	made := func(code Code, message string) *Fault {
		return &Fault{Code: code, Message: message, Errno: unix.ErrnoName(errno)}
	}
	switch errno {
	case unix.ENOENT:
		return made(NotFound, "no such file or directory")
	case unix.ENOTDIR:
		return made(NotDirectory, "a part of the path isn't a directory")
	case unix.EISDIR:
		fault := made(NotFile, "it is a directory")
		fault.Kind = KindDirectory
		return fault
	case unix.ELOOP:
		fault := made(Link, "a link is in the path; none is followed")
		fault.Kind = KindLink
		return fault
	case unix.EXDEV:
		return made(Outside, "the path leads to another mount, or out of its own")
	case unix.EACCES, unix.EPERM:
		return made(Forbidden, "the sandbox's own permissions don't allow it")
	case unix.EROFS:
		return made(ReadOnly, "the file system is read-only")
	case unix.ENOSPC:
		if noInodes(fd) {
			return made(NoInodes, "the file system has no room for another file")
		}
		return made(NoSpace, "the file system is full")
	case unix.EEXIST, unix.ENOTEMPTY:
		return made(Exists, "there is something of that name already")
	case unix.EBUSY, unix.ETXTBSY:
		return made(Forbidden, "it is in use: the root of a mount, or a program that runs")
	case unix.EDQUOT:
		return made(Quota, "the quota is used up")
	case unix.EFBIG:
		return made(TooLarge, "the file would be larger than the limit")
	case unix.ENAMETOOLONG, unix.EINVAL, unix.EILSEQ:
		return made(BadName, "the file system doesn't take this name")
	}
	return made(Failed, errno.Error())
}

// noInodes tells the two ways apart in which ENOSPC comes. A file system that doesn't count its files says that it has none at all.
func noInodes(fd int) bool {
	var stat unix.Statfs_t
	return fd >= 0 && unix.Fstatfs(fd, &stat) == nil && stat.Files > 0 && stat.Ffree == 0
}
