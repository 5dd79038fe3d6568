package main

import (
	"errors"
	"fmt"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

var processActs = []act{
	{"ptrace", "PID", "PTRACE_SEIZE a process", func(args []string) error {
		return onProcess(args, func(pid int) error { return ptraceSeize(pid) })
	}},
	{"ptrace-self", "", "become traced by the parent (PTRACE_TRACEME)", func([]string) error { return ptraceMe() }},
	{"process-read", "PID", "process_vm_readv of a process", func(args []string) error {
		return onProcess(args, func(pid int) error {
			buffer := make([]byte, 8)
			local := []unix.Iovec{{Base: &buffer[0], Len: 8}}
			_, err := unix.ProcessVMReadv(pid, local, []unix.RemoteIovec{{Base: 0x400000, Len: 8}}, 0)
			return err
		})
	}},
	{"process-memory", "PID", "open /proc/PID/mem for writing", func(args []string) error {
		return onProcess(args, func(pid int) error {
			return closing(unix.Open(fmt.Sprintf("/proc/%d/mem", pid), unix.O_RDWR|unix.O_CLOEXEC, 0))
		})
	}},
	{"pidfd-getfd", "PID", "take descriptor 0 of a process", func(args []string) error {
		return onProcess(args, func(pid int) error {
			pidfd, err := unix.PidfdOpen(pid, 0)
			if err != nil {
				return err
			}
			return closing(unix.PidfdGetfd(pidfd, 0, 0))
		})
	}},
	{"kill", "PID [SIGNAL]", "send a signal, 0 unless given", func(args []string) error {
		if len(args) < 1 {
			return errors.New("want PID [SIGNAL]")
		}
		signal, err := strconv.Atoi(argument(args, 1, "0"))
		if err != nil {
			return fmt.Errorf("SIGNAL is a number: %w", err)
		}
		return onProcess(args[:1], func(pid int) error { return unix.Kill(pid, syscall.Signal(signal)) })
	}},
	{"setuid", "", "become uid 0", func([]string) error { return unix.Setuid(0) }},
	{"setgroups", "", "join group 0", func([]string) error { return unix.Setgroups([]int{0}) }},
	{"capset", "", "ask for CAP_SYS_ADMIN", func([]string) error {
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		data := [2]unix.CapUserData{}
		data[0].Effective, data[0].Permitted = 1<<unix.CAP_SYS_ADMIN, 1<<unix.CAP_SYS_ADMIN
		return unix.Capset(&header, &data[0])
	}},
	{"unshare", "", "make a user namespace by unshare(2)", func([]string) error { return unshareUser() }},
	{"clone-user", "", "make a user namespace by clone(2)", func([]string) error { return cloneWith(unix.CLONE_NEWUSER) }},
	{"clone3", "", "make a user namespace by clone3(2), whose flags a filter can't see", func([]string) error { return clone3User() }},
	{"setns", "PID", "enter the mount namespace of a process", func(args []string) error {
		return onProcess(args, func(pid int) error {
			fd, err := unix.Open(fmt.Sprintf("/proc/%d/ns/mnt", pid), unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err != nil {
				return err
			}
			return unix.Setns(fd, unix.CLONE_NEWNS)
		})
	}},
	{"priority", "", "raise the scheduling priority", func([]string) error { return unix.Setpriority(unix.PRIO_PROCESS, 0, -20) }},
	{"rlimit-of", "PID", "lower the limit on processor time of a process to what kills it", func(args []string) error {
		return onProcess(args, func(pid int) error { return unix.Prlimit(pid, unix.RLIMIT_CPU, &unix.Rlimit{}, nil) })
	}},
	{"rlimit", "", "raise a hard limit", func([]string) error {
		var limit unix.Rlimit
		if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
			return err
		}
		limit.Max++
		return unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)
	}},
}

func onProcess(args []string, do func(pid int) error) error {
	if len(args) != 1 {
		return errors.New("want one PID")
	}
	pid, err := strconv.Atoi(args[0])
	if err != nil {
		return fmt.Errorf("PID is a number: %w", err)
	}
	return do(pid)
}
