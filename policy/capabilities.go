package policy

import (
	"slices"
	"strings"
)

// CapabilityAll stands for every capability that there is, those that a newer kernel adds too.
const CapabilityAll = "ALL"

// capabilityNames has the names of linux/capability.h by number.
var capabilityNames = []string{
	"CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID",
	"SETPCAP", "LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER",
	"SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE",
	"SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD", "LEASE", "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP",
	"MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG", "WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF",
	"CHECKPOINT_RESTORE",
}

// CapabilityNames lists the known capabilities, without CAP_; the index is the number.
func CapabilityNames() []string { return slices.Clone(capabilityNames) }

// CapabilityNumber is the number of a capability in its canonical spelling. ALL has none.
func CapabilityNumber(name string) (number int, known bool) {
	number = slices.Index(capabilityNames, name)
	return number, number >= 0
}

// canonicalCapability drops CAP_ and makes letters upper case.
func canonicalCapability(name string) string {
	return strings.TrimPrefix(strings.ToUpper(name), "CAP_")
}

// canonicalCapabilities makes a set: canonical names, sorted, each once. ALL swallows the others.
func canonicalCapabilities(names []string) []string {
	set := make([]string, 0, len(names))
	for _, name := range names {
		set = append(set, canonicalCapability(name))
	}
	slices.Sort(set)
	set = slices.Compact(set)
	if slices.Contains(set, CapabilityAll) {
		return []string{CapabilityAll}
	}
	return set
}

// checkCapabilities accepts known names, with or without CAP_, in upper case as Kubernetes writes them, and ALL.
func checkCapabilities(field string, names []string) *FieldError {
	for i, name := range names {
		bare := strings.TrimPrefix(name, "CAP_")
		if _, known := CapabilityNumber(bare); known || name == CapabilityAll {
			continue
		}
		fault := faultf(element(field, i), "unknown capability %s", quote(name))
		fault.Nearest = Nearest(canonicalCapability(name), append([]string{CapabilityAll}, capabilityNames...))
		return fault
	}
	return nil
}
