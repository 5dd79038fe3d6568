package main

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/sandboxd/sandboxd/execd"
)

// registerTuning adds the flags that say how much a daemon does at once, and for how long. They write into c and have its values as defaults. A test holds
// that each field of execd.Config has a flag, or a reason to have none.
func registerTuning(f *flagSet, c *execd.Config) {
	f.IntVar(&c.Pool, "pool", c.Pool, "`number` of fresh sandboxes kept ready")
	f.IntVar(&c.MaxRunning, "max-running", c.MaxRunning, "execs that run at once")
	f.IntVar(&c.MaxWaiting, "max-waiting", c.MaxWaiting, "execs that may wait for a place; one more is answered 429 at once")
	f.DurationVar(&c.QueueTimeout, "queue-timeout", c.QueueTimeout, "how long an exec waits for a place before it is answered 429")
	f.IntVar(&c.MaxConnections, "max-connections", c.MaxConnections, "connections at once; 0 twice the execs that may run and wait, and at least 1024")
	f.IntVar(&c.MaxSandboxes, "max-sandboxes", c.MaxSandboxes, "sandboxes that callers keep")
	f.IntVar(&c.MaxWorkers, "max-workers", c.MaxWorkers, "execs that run in one sandbox at once")
	f.Var((*size)(&c.RequestMemory), "request-memory", "memory of all requests that are here, in `bytes`; what doesn't fit is answered 429 at once")
	f.Var((*size)(&c.OutputMemory), "output-memory", "memory of the output of all that runs, in `bytes`; each exec has six times its limits.outputBytes of it, and 1MiB")
	f.Var((*size)(&c.PrewarmMemory), "prewarm-memory", "memory that interpreters may have which are started ahead (--prewarm), in `bytes`")
	f.Var((*size)(&c.BodyBytes), "body-bytes", "largest body of a request, in `bytes`; the inputs of a run don't count")
	f.Var((*size)(&c.InputBytes), "input-bytes", "largest inputs of a run, in `bytes`; long ones are on the disk of the state directory, not in memory")
	f.Var((*size)(&c.ValueBytes), "value-bytes", "largest value of a run, in `bytes`; so too")
	f.Var((*size)(&c.SpoolBytes), "spool-bytes", "disk of all long inputs and values that are here, in `bytes`; what doesn't fit is answered 429, and a value failed")
	f.Var((*size)(&c.FileBytes), "file-bytes", "largest content of a file operation, in `bytes`")
	f.Var((*size)(&c.TmpBytes), "tmp-bytes", "size of a sandbox's /tmp, in `bytes`")
	f.Var((*size)(&c.RootBytes), "root-bytes", "how much a sandbox may write to the root of an image, in `bytes`")
	f.Var((*size)(&c.ImageBytes), "image-bytes", "how much the files of one image may have together, in `bytes`")
	f.Var((*size)(&c.WorkBytes), "work-bytes", "size of a sandbox's /work, in `bytes`")
	f.Var((*size)(&c.AuditFileBytes), "audit-file-bytes", "when the audit log begins a new file, in `bytes`")
	f.IntVar(&c.FirstUID, "first-uid", c.FirstUID, "first `uid` of the range for sandboxes (root only); nobody else may have any of them")
	f.IntVar(&c.UIDs, "uids", c.UIDs, "how many ids the range has; a sandbox takes two")
	f.StringVar(&c.ClaimFile, "claim-file", c.ClaimFile, "`path` of the file by which this machine's daemons agree on who has which ids")
	f.IntVar(&c.NetworkConnections, "network-connections", c.NetworkConnections, "connections out of all sandboxes at once; 0 as many as descriptors allow")
	f.IntVar(&c.SandboxConnections, "sandbox-connections", c.SandboxConnections, "connections out of one sandbox at once; one more is reset")
	f.BoolVar(&c.RecordConnections, "record-connections", c.RecordConnections, "record each connection of a sandbox at its end, not only those that were refused or cut")
	f.DurationVar(&c.DriftInterval, "drift-interval", c.DriftInterval, "how often everything that runs is read back again; 0 never")
	f.StringVar(&c.OnDrift, "on-drift", c.OnDrift, "what to do with a sandbox that isn't what it was: `kill` it, or deny it more work and leave it frozen")
	f.DurationVar(&c.ProbeInterval, "probe-interval", c.ProbeInterval, "how long a proof by forbidden acts holds before it is made again; 0 none is made by itself")
	f.DurationVar(&c.HeaderTimeout, "header-timeout", c.HeaderTimeout, "how long the header of a request may take to come")
	f.DurationVar(&c.BodyTimeout, "body-timeout", c.BodyTimeout, "how long its body may take")
	f.DurationVar(&c.IdleTimeout, "idle-timeout", c.IdleTimeout, "how long a connection may wait for its next request")
	f.DurationVar(&c.WriteTimeout, "write-timeout", c.WriteTimeout, "how long a client may take to read an answer, or an event of a stream")
	f.DurationVar(&c.DrainTimeout, "drain-timeout", c.DrainTimeout, "how long what runs may go on after SIGTERM, while nothing new begins; 0 it is ended at once")
	f.DurationVar(&c.StopTimeout, "stop-timeout", c.StopTimeout, "how long a graceful stop may take, after --drain-timeout")
}

// prewarms is a flag that may be given more than once.
type prewarms []execd.Prewarm

func (p *prewarms) String() string { return fmt.Sprint(*p) }

func (p *prewarms) Set(text string) error {
	set, err := execd.ParsePrewarm(text)
	*p = append(*p, set)
	return err
}

// size is a number of bytes: 65536, or with a binary unit, 64KiB. Units of a thousand aren't taken, since nobody knows what 64K would be.
type size int64

var sizeUnits = []struct {
	name  string
	bytes int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}}

func (s *size) String() string {
	for i := len(sizeUnits) - 1; i >= 0; i-- {
		if unit := sizeUnits[i]; *s != 0 && int64(*s)%unit.bytes == 0 {
			return fmt.Sprintf("%d%s", int64(*s)/unit.bytes, unit.name)
		}
	}
	return strconv.FormatInt(int64(*s), 10)
}

func (s *size) Set(text string) error {
	factor := int64(1)
	for _, unit := range sizeUnits {
		if number, found := strings.CutSuffix(text, unit.name); found {
			text, factor = number, unit.bytes
			break
		}
	}
	number, err := strconv.ParseUint(text, 10, 63)
	if err != nil || int64(number) > math.MaxInt64/factor {
		return errors.New("want a number of bytes, such as 1048576, 1024KiB or 1MiB")
	}
	*s = size(int64(number) * factor)
	return nil
}
