package seccomp

import (
	"fmt"
	"syscall"
)

// attributeCalls change modes, owners, times and attributes of files. Landlock has no right for any of them ("chmod(2), chown(2), setxattr(2), utime(2)",
// landlock(7), LIMITATIONS), and a file's owner needs no right to write it.
var attributeCalls = []string{
	"chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "lchown", "fchown", "fchownat", "utime", "utimes", "futimesat", "utimensat",
	"setxattr", "lsetxattr", "fsetxattr", "setxattrat", "removexattr", "lremovexattr", "fremovexattr", "removexattrat", "file_setattr",
}

// ReadingOnly is the filter that also answers EROFS to what changes a file without writing to it.
func (f Filter) ReadingOnly(arch string) (Filter, error) {
	var calls []uint32
	for _, name := range attributeCalls {
		if nr, ok := Number(arch, name); ok { // newer architectures have only some
			calls = append(calls, uint32(nr))
		}
	}
	var err error
	answer := Errno(syscall.EROFS)
	if f.Program, err = f.Program.answering(arch, calls, answer); err == nil && len(f.Answers) > 0 {
		f.Answers, err = f.Answers.answering(arch, calls, answer)
	}
	if err != nil {
		return Filter{}, fmt.Errorf("%s: %w", f.Profile, err)
	}
	return f, nil
}
