package enforcer

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/sandboxd/sandboxd/enforcer/procfs"
)

// fixedLimits hold for every child, whatever was asked for.
var fixedLimits = []struct {
	name  string
	value int64
}{
	// One byte, not none: a core that goes to a program ("|" in core_pattern) is made in spite of 0 and refused for 1 (core(5)).
	{"core", 1},
	{"memlock", 64 << 10}, // the kernel's own default for thirty years; memory that can't be swapped is the machine's
	{"msgqueue", 0},       // POSIX queues outlive their maker, and without a mount nobody finds them again
	{"nice", 0},           // no raising of priority
	{"rtprio", 0},
	{"sigpending", 1024}, // counted per uid; queued signals are kernel memory
	{"stack", 8 << 20},   // as everywhere; without a hard limit a program could ask for all
}

// minMemory is the least memory.max in which a program can start at all; less would only be a strange way to say no.
const minMemory = 1 << 20

// memoryUnit divides a page of every architecture: the kernel keeps whole pages, and what it gives back must be what was set.
const memoryUnit = 64 << 10

// cpuPeriod is the period of cpu.max in microseconds, the kernel's default. The kernel takes no quota below 1 ms.
const (
	cpuPeriod = 100_000
	minQuota  = 1_000
)

// tree is how all processes of an exec are killed and proven gone.
func (b *builder) tree() error {
	switch {
	case b.host.Cgroup.Base != "" && b.host.Cgroup.Kill:
		b.plan.Kill, b.plan.Cgroup = KillCgroup, map[string]string{}
	case b.host.LandlockABI >= 6:
		b.plan.Kill = KillShepherd
	default:
		// Not for policy to accept: kill(2) of -1 without the scope would hit other execs, and without it processes would be left running.
		return &RefusedError{Field: "limits.timeoutSeconds", Message: "nothing here ends a whole process tree: no cgroup with cgroup.kill, and no Landlock signal scope",
			HowTo: "Linux 6.12, or a cgroup version 2 tree that sandboxd may write (run it as root, or in a unit with Delegate=yes and DelegateSubgroup=)"}
	}
	return nil
}

// limits turns limits into cgroup values and resource limits. The kernel keeps no finer units than it has, so values are rounded down: an exec
// never gets more than was allowed.
func (b *builder) limits() error {
	asked := b.decision.Effective.Limits
	for _, limit := range fixedLimits {
		b.rlimit(limit.name, limit.value)
	}
	if asked.OpenFiles > 0 {
		b.rlimit("nofile", asked.OpenFiles)
	}
	if asked.FileBytes > 0 {
		b.rlimit("fsize", asked.FileBytes)
	}
	if asked.Pids > 0 {
		if b.controller("pids") {
			b.plan.Cgroup["pids.max"] = strconv.FormatInt(asked.Pids, 10)
		} else {
			// Counted for the uid, which is the sandbox's own: other execs of this sandbox count as well, and in a user namespace launcher and
			// workers do. Less than was allowed, never more.
			b.rlimit("nproc", asked.Pids)
		}
	}
	if err := b.memory(asked.MemoryBytes); err != nil {
		return err
	}
	if err := b.cpu(asked.CPU); err != nil {
		return err
	}
	if err := b.cpuTime(asked.CPUSeconds); err != nil {
		return err
	}
	slices.SortFunc(b.plan.RLimits, func(x, y RLimit) int { return x.Resource - y.Resource })
	return nil
}

func (b *builder) memory(bytes int64) error {
	switch {
	case bytes <= 0:
		return nil
	case bytes < minMemory:
		return &RefusedError{Field: "limits.memoryBytes", Message: fmt.Sprintf("no program starts in %d bytes", bytes), HowTo: fmt.Sprintf("ask for %d or more", minMemory)}
	case !b.controller("memory"):
		return b.countedMemory(bytes)
	}
	b.plan.Cgroup["memory.max"] = strconv.FormatInt(bytes/memoryUnit*memoryUnit, 10)
	// The whole tree goes, so that no exec lives on as half of itself.
	b.plan.Cgroup["memory.oom.group"] = "1"
	if b.host.Cgroup.Swap {
		b.plan.Cgroup["memory.swap.max"] = "0"
	}
	return nil
}

// dataFactor and dataSlack make of a memory limit the RLIMIT_DATA that stands behind a count of it: well above it, so that the count acts first, and
// with room for the stacks of threads, which are data too.
const (
	dataFactor = 4
	dataSlack  = 64 << 20
)

// countedMemory is what is left without a memory controller, where policy accepts that. The kernel limits no more than each process's private
// writable memory (RLIMIT_DATA), and tells nobody when it says no. So the runner counts what the tree holds, many times a second, and kills: that is
// known, and late by one look. Both are weaker than memory.max, and the plan says so.
func (b *builder) countedMemory(bytes int64) error {
	data := bytes*dataFactor + dataSlack
	message := fmt.Sprintf("the kernel limits no tree's memory: %s; the tree is killed when it is seen to hold more than %d bytes, and RLIMIT_DATA holds each process to %d",
		b.why("memory"), bytes, data)
	if err := b.lack("cgroup.memory", "limits.memoryBytes", message, howToController); err != nil {
		return err
	}
	b.rlimit("data", data)
	b.plan.Memory = bytes
	return nil
}

func (b *builder) cpu(cores float64) error {
	switch {
	case cores <= 0:
		return nil
	case !b.controller("cpu"):
		return b.lack("cgroup.cpu", "limits.cpu", "processor time can't be limited: "+b.why("cpu"), howToController)
	}
	quota := max(math.Floor(cores*cpuPeriod), minQuota)
	b.plan.Cgroup["cpu.max"] = strconv.FormatInt(int64(quota), 10) + " " + strconv.Itoa(cpuPeriod)
	return nil
}

// cpuTime limits the processor time of the whole tree. No control file of the kernel does that: the exec's group counts it (cpu.stat, which needs
// no controller), and the runner kills the tree when it is used up. RLIMIT_CPU, which the kernel holds for each process alone and in whole
// seconds, stands behind it in case the daemon doesn't get to run; it is a second higher, so that one of the two acts and not now this, now that.
func (b *builder) cpuTime(seconds float64) error {
	if seconds <= 0 {
		return nil
	}
	whole := int64(math.Ceil(seconds))
	if b.plan.Cgroup == nil {
		if err := b.lack("cgroup.usage", "limits.cpuSeconds", "the processor time of a process tree isn't counted without a cgroup; RLIMIT_CPU holds each process to "+
			strconv.FormatInt(whole, 10)+" s", howToController); err != nil {
			return err
		}
		b.rlimit("cpu", whole)
		return nil
	}
	b.plan.CPUTime = int64(seconds * 1e6)
	b.rlimit("cpu", whole+1)
	return nil
}

const howToController = "use a host with cgroup version 2 for all controllers, and run sandboxd as root, or in a unit with Delegate=yes and DelegateSubgroup="

// controller says whether the exec's own cgroup has a controller.
func (b *builder) controller(name string) bool {
	return b.plan.Cgroup != nil && slices.Contains(b.host.Cgroup.Controllers, name)
}

func (b *builder) why(controller string) string {
	if b.host.Cgroup.Why != "" {
		return b.host.Cgroup.Why
	}
	return "no cgroup with the controller " + controller
}

// rlimit sets soft and hard to a value, or to the daemon's own hard limit where that is lower: a worker has no CAP_SYS_RESOURCE to raise it.
func (b *builder) rlimit(name string, value int64) {
	if hard, known := b.host.RLimits[name]; known && hard >= 0 {
		value = min(value, hard)
	}
	i := slices.IndexFunc(procfs.Resources, func(r procfs.Resource) bool { return r.Name == name })
	b.plan.RLimits = append(b.plan.RLimits, RLimit{Name: name, Resource: procfs.Resources[i].Number, Value: value})
}
