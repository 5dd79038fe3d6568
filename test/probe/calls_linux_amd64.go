package main

import "golang.org/x/sys/unix"

// Calls that only this architecture still has.
func init() {
	for name, number := range map[string]uintptr{
		"_sysctl":         unix.SYS__SYSCTL,
		"create_module":   unix.SYS_CREATE_MODULE,
		"get_kernel_syms": unix.SYS_GET_KERNEL_SYMS,
		"ioperm":          unix.SYS_IOPERM,
		"iopl":            unix.SYS_IOPL,
		"lookup_dcookie":  unix.SYS_LOOKUP_DCOOKIE,
		"modify_ldt":      unix.SYS_MODIFY_LDT,
		"query_module":    unix.SYS_QUERY_MODULE,
		"sysfs":           unix.SYS_SYSFS,
		"uselib":          unix.SYS_USELIB,
		"ustat":           unix.SYS_USTAT,
	} {
		calls[name] = number
	}
}
