package main

import (
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

var fileActs = []act{
	{"write", "PATH", "open for writing, making the file if need be", func(args []string) error {
		return openAndClose(args, unix.O_WRONLY|unix.O_CREAT)
	}},
	{"truncate", "PATH", "truncate(2) to nothing, without opening", func(args []string) error {
		return onPath(args, func(path string) error { return unix.Truncate(path, 0) })
	}},
	{"open", "PATH", "open for reading", func(args []string) error {
		return openAndClose(args, unix.O_RDONLY)
	}},
	{"read", "PATH", "open a file and read a byte; an empty one answers ENODATA", func(args []string) error {
		return onPath(args, func(path string) error {
			fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err != nil {
				return err
			}
			n, err := unix.Read(fd, make([]byte, 1))
			if n == 0 && err == nil {
				err = unix.ENODATA
			}
			return errors.Join(err, unix.Close(fd))
		})
	}},
	{"link", "PATH", "make a hard link to a file, as /work/link", func(args []string) error {
		return onPath(args, func(path string) error { return unix.Link(path, "/work/link") })
	}},
	{"move", "FROM TO", "rename(2)", func(args []string) error { return between(args, unix.Rename) }},
	{"link-as", "FROM TO", "link(2)", func(args []string) error { return between(args, unix.Link) }},
	{"exchange", "FROM TO", "let two names change places", func(args []string) error {
		return between(args, func(from, to string) error {
			return unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_EXCHANGE)
		})
	}},
	{"execute", "PATH", "start a program", func(args []string) error {
		return onPath(args, func(path string) error { return execute(path, path) })
	}},
	{"list", "PATH", "read a directory", func(args []string) error {
		return onPath(args, func(path string) error {
			_, err := os.ReadDir(path)
			return err
		})
	}},
	{"unlink", "PATH", "remove a file", func(args []string) error { return onPath(args, unix.Unlink) }},
	{"mkdir", "PATH", "make a directory", func(args []string) error {
		return onPath(args, func(path string) error { return unix.Mkdir(path, 0o700) })
	}},
	{"symlink", "PATH", "make a symbolic link", func(args []string) error {
		return onPath(args, func(path string) error { return unix.Symlink("/etc/shadow", path) })
	}},
	{"chmod", "PATH", "make a file setuid", func(args []string) error {
		return onPath(args, func(path string) error { return unix.Chmod(path, 0o4755) })
	}},
	{"chown", "PATH", "give a file to root", func(args []string) error {
		return onPath(args, func(path string) error { return unix.Chown(path, 0, 0) })
	}},
	{"mknod", "PATH", "make a block device (8, 0)", func(args []string) error {
		return onPath(args, func(path string) error {
			return unix.Mknod(path, unix.S_IFBLK|0o600, int(unix.Mkdev(8, 0)))
		})
	}},
	{"setxattr", "PATH", "give a file a capability", func(args []string) error {
		return onPath(args, func(path string) error {
			// struct vfs_cap_data, revision 2, CAP_SYS_ADMIN permitted and effective (capabilities(7)).
			capability := []byte{1, 0, 0, 2, 0, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
			return unix.Setxattr(path, "security.capability", capability, 0)
		})
	}},
	{"open-by-handle", "", "open the root's inode by a made-up handle, round the path walk", func([]string) error {
		fd, err := unix.OpenByHandleAt(unix.AT_FDCWD, unix.NewFileHandle(1, []byte{2, 0, 0, 0, 0, 0, 0, 0}), unix.O_RDONLY)
		return closing(fd, err)
	}},
	{"memfd", "", "write a program to memory and execute it", func([]string) error {
		return executeFromMemory()
	}},
}

func between(args []string, do func(from, to string) error) error {
	if len(args) != 2 {
		return errors.New("want FROM and TO")
	}
	return do(args[0], args[1])
}

func onPath(args []string, do func(path string) error) error {
	if len(args) != 1 {
		return errors.New("want one PATH")
	}
	return do(args[0])
}

func openAndClose(args []string, flags int) error {
	return onPath(args, func(path string) error {
		return closing(unix.Open(path, flags|unix.O_CLOEXEC, 0o600))
	})
}

func closing(fd int, err error) error {
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

func executeFromMemory() error {
	program, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return err
	}
	fd, err := unix.MemfdCreate("probe", unix.MFD_CLOEXEC)
	if err != nil {
		return err
	}
	for rest := program; len(rest) > 0; {
		n, err := unix.Write(fd, rest)
		if err != nil {
			return err
		}
		rest = rest[n:]
	}
	return execute("/proc/self/fd/"+strconv.Itoa(fd), "probe", "exit", "0")
}

func execute(path string, argv ...string) error {
	process, err := os.StartProcess(path, argv, &os.ProcAttr{})
	if err != nil {
		return err
	}
	_, err = process.Wait()
	return err
}
