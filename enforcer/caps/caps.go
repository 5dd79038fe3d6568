// Package caps names Linux capabilities (capabilities(7)) and counts in sets of them: a set is a mask, bit n for capability n.
package caps

import (
	"fmt"
	"math/bits"
	"strings"
)

// names are the capabilities in the kernel's order (include/uapi/linux/capability.h), as libcap writes them.
var names = [...]string{
	"cap_chown", "cap_dac_override", "cap_dac_read_search", "cap_fowner", "cap_fsetid", "cap_kill", "cap_setgid", "cap_setuid",
	"cap_setpcap", "cap_linux_immutable", "cap_net_bind_service", "cap_net_broadcast", "cap_net_admin", "cap_net_raw", "cap_ipc_lock", "cap_ipc_owner",
	"cap_sys_module", "cap_sys_rawio", "cap_sys_chroot", "cap_sys_ptrace", "cap_sys_pacct", "cap_sys_admin", "cap_sys_boot", "cap_sys_nice",
	"cap_sys_resource", "cap_sys_time", "cap_sys_tty_config", "cap_mknod", "cap_lease", "cap_audit_write", "cap_audit_control", "cap_setfcap",
	"cap_mac_override", "cap_mac_admin", "cap_syslog", "cap_wake_alarm", "cap_block_suspend", "cap_audit_read", "cap_perfmon", "cap_bpf",
	"cap_checkpoint_restore",
}

// Name is the capability's name; one that this table doesn't know (a newer kernel) is its number, "cap_63".
func Name(capability int) string {
	if capability >= 0 && capability < len(names) {
		return names[capability]
	}
	return fmt.Sprintf("cap_%d", capability)
}

// Number finds a capability by its name, in any case, with or without the prefix "cap_".
func Number(name string) (int, error) {
	want := "cap_" + strings.TrimPrefix(strings.ToLower(name), "cap_")
	for number, have := range names {
		if have == want {
			return number, nil
		}
	}
	return 0, fmt.Errorf("no capability is called %q", name)
}

// All is the set of every capability from 0 to last.
func All(last int) uint64 {
	if last < 0 {
		return 0
	}
	if last >= 63 {
		return ^uint64(0)
	}
	return 1<<(last+1) - 1
}

// Has says whether the set holds the capability.
func Has(set uint64, capability int) bool {
	return capability >= 0 && capability < 64 && set&(1<<capability) != 0
}

// Text is the set for people: "none", or names in the kernel's order, separated by commas.
func Text(set uint64) string {
	if set == 0 {
		return "none"
	}
	list := make([]string, 0, bits.OnesCount64(set))
	for rest := set; rest != 0; rest &= rest - 1 {
		list = append(list, Name(bits.TrailingZeros64(rest)))
	}
	return strings.Join(list, ",")
}
