package execd

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/netip"
	"path/filepath"
	"slices"
	"time"

	"github.com/sandboxd/sandboxd/execd/audit"
	"github.com/sandboxd/sandboxd/execd/image"
	"github.com/sandboxd/sandboxd/policy"
)

// Config is everything that a Service can be told. [DefaultConfig] has every default; [New] starts nothing before Validate is content.
type Config struct {
	// Version is what status says.
	Version string
	// StateDir holds the daemon's own files. Absolute.
	StateDir string
	// AuditDir is where the audit log is; empty: the folder "audit" of StateDir.
	AuditDir string
	// AuditKeyFile has the private key that signs the log's checkpoints, a file of ours, mode 0600 or 0400; empty: one that is made beside the log.
	AuditKeyFile string
	// AuditCopy gets each line of the log once the disk has it; nil: nobody does. A copy that can't be written stops releases as a log that can't.
	AuditCopy io.Writer
	// OnRecord hears of each record that the log has, with its number; nil: nobody does. It is called by who recorded, at the same time by several, and must not
	// wait for anything.
	OnRecord func(sequence int64, r audit.Record)
	// AuditSlots is how many logs there may be: a service whose log another process writes takes the next, "audit.2" and so on. 1 for a daemon,
	// which has the log to itself or doesn't start; more for commands that embed a service and may run at the same time. Each log has its own chain.
	AuditSlots int
	// PolicyDir is a bundle's directory; empty: the built-in one.
	PolicyDir string
	// Late has policy come after the start, in place of PolicyDir.
	Late Late
	// TestedPolicy leaves out the built-in bundle's own tests at start, as the build of this program has run them: for a process that serves one
	// command. The must-deny list is held against it in any case, and a directory's bundle is always tested.
	TestedPolicy bool
	// ProfileDir has the seccomp profiles that type Localhost names; empty: none.
	ProfileDir string
	// RunnerPath is the launcher's binary; empty: sandboxd-runner beside our own executable.
	RunnerPath string
	// Show are the host's directories and files that sandboxes see, read-only; empty: found by default.
	Show []string
	// Private are files and directories of ours besides those above, such as the socket's, that no sandbox may be shown.
	Private []string

	// Pool is how many fresh sandboxes are kept ready; 0: each is made when it is asked for.
	Pool int
	// MaxRunning execs run at once; MaxWaiting more wait for a place, for at most QueueTimeout.
	MaxRunning   int
	MaxWaiting   int
	QueueTimeout time.Duration
	// RequestMemory bounds the memory of requests that are here, running or waiting: a body counts thrice while it comes, and what its members make when
	// it is parsed. OutputMemory bounds that of output which is kept for answers: each request that runs has its limits.outputBytes six times reserved
	// (two streams, three times each), and a mebibyte for its value, and waits for that as for a place.
	RequestMemory int64
	OutputMemory  int64
	// MaxConnections may be open at once; 0: twice the requests that may run and wait, and at least 1024. One more is answered 429 at once.
	MaxConnections int
	// MaxSandboxes bounds those that callers made and haven't deleted.
	MaxSandboxes int
	// MaxWorkers bounds the execs that run in one sandbox at once.
	MaxWorkers int

	// TmpBytes and WorkBytes are the sizes of a sandbox's /tmp and /work.
	TmpBytes  int64
	WorkBytes int64
	// RootBytes is how much may be written to the root of an image, where that is writable: memory, and its sandbox's until it ends.
	RootBytes int64
	// Images are imported at the start. ImageBytes bounds what the files of one may have together.
	Images     []NamedImage
	ImageBytes int64
	// AllowPull lets the start ask registries for those of Images that are named by a reference and aren't here yet. Nothing else ever asks one.
	AllowPull bool
	// FirstUID and UIDs are the range of ids that a root daemon gives away, a pair for each sandbox.
	FirstUID int
	UIDs     int
	// ClaimFile is where the root daemons of a machine agree on who has which ids.
	ClaimFile string

	// DecisionTimeout bounds one decision, GateTimeout the way of a child to its gate and from its release past execve, SandboxTimeout the
	// making of a sandbox, RecordTimeout one audit record, KillTimeout the kernel's word that a killed tree is empty.
	DecisionTimeout time.Duration
	GateTimeout     time.Duration
	SandboxTimeout  time.Duration
	RecordTimeout   time.Duration
	KillTimeout     time.Duration

	// InputBytes bounds the inputs of a run, ValueBytes its value, and SpoolBytes what all of both have of the disk together: beyond a quarter of a mebibyte
	// each is in a file of StateDir that has no name.
	InputBytes int64
	ValueBytes int64
	SpoolBytes int64
	// FileBytes bounds the content of a file operation.
	FileBytes int64
	// BodyBytes bounds a request's body, but for the inputs of a run; HeaderTimeout and BodyTimeout its arrival, IdleTimeout the wait for a next one on a connection, WriteTimeout each
	// write of an answer, DrainTimeout how long what runs may go on when a stop is asked for, 0: it is ended at once; StopTimeout the graceful stop after that.
	BodyBytes     int64
	HeaderTimeout time.Duration
	BodyTimeout   time.Duration
	IdleTimeout   time.Duration
	WriteTimeout  time.Duration
	DrainTimeout  time.Duration
	StopTimeout   time.Duration

	// DriftInterval is how often everything that runs is read back again, 0: never; OnDrift, [DriftKill] or [DriftDeny], what is done when something
	// that held no longer does. ProbeInterval is for how long a proof by probes of a plan in use holds before the drift timer renews it, 0: it makes none.
	DriftInterval time.Duration
	OnDrift       string
	ProbeInterval time.Duration

	// Resolvers are asked for the names that policy lets sandboxes ask for; none: those of ResolvConf, the host's own. ResolvConf "" is none at all.
	Resolvers  []netip.AddrPort
	ResolvConf string
	// NetworkConnections may go out of all sandboxes at once, 0: as many as descriptors allow; SandboxConnections out of one.
	NetworkConnections int
	SandboxConnections int
	// RecordConnections writes down each connection that ended, not only those that were refused or cut.
	RecordConnections bool

	// CompileDriver has the driver of Python runs compiled once, by a run of our own after the first one; else each cold run does.
	CompileDriver bool
	// Prewarm are the interpreters that wait for a run; none: each run starts its own. Together they take at most PrewarmMemory, and one that doesn't
	// come to wait within PrewarmTimeout is given up.
	Prewarm        []Prewarm
	PrewarmMemory  int64
	PrewarmTimeout time.Duration

	// Attach is for a daemon whose one sandbox is a container that somebody else has made; the zero value: it makes its sandboxes itself.
	Attach Attach

	// AuditFileBytes is when the audit log begins a new file.
	AuditFileBytes int64

	// Now is the wall clock that records take their time from; nil: time.Now. Nothing is bounded by it: every deadline is the monotonic clock's.
	Now func() time.Time

	Logger *slog.Logger
}

// DefaultConfig is a daemon with its state in stateDir.
func DefaultConfig(stateDir string) Config {
	return Config{
		Version: "devel", StateDir: stateDir,
		Pool: 2, MaxRunning: 16, MaxWaiting: 64, QueueTimeout: 30 * time.Second, MaxSandboxes: 64, MaxWorkers: 16,
		RequestMemory: 256 << 20, OutputMemory: 640 << 20,
		TmpBytes: 64 << 20, WorkBytes: 256 << 20, RootBytes: 256 << 20, ImageBytes: image.DefaultLimits().Bytes, FirstUID: 200_000, UIDs: 65_536,
		ClaimFile:       "/run/sandboxd.ids", // not in the directory of the socket, which has a mode of its own
		DecisionTimeout: time.Second, GateTimeout: 10 * time.Second, SandboxTimeout: 10 * time.Second,
		RecordTimeout: 10 * time.Second, KillTimeout: 10 * time.Second,
		InputBytes: 256 << 20, ValueBytes: 256 << 20, SpoolBytes: 4 << 30,
		FileBytes: 64 << 20, BodyBytes: 8 << 20, HeaderTimeout: 10 * time.Second, BodyTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute,
		WriteTimeout: 30 * time.Second, StopTimeout: 20 * time.Second,
		DriftInterval: 10 * time.Second, OnDrift: DriftKill, ProbeInterval: 10 * time.Minute,
		ResolvConf: "/etc/resolv.conf", SandboxConnections: 1024,
		CompileDriver: true, PrewarmMemory: 512 << 20, PrewarmTimeout: time.Minute,
		AuditSlots: 1, AuditFileBytes: 64 << 20,
		Logger: slog.New(slog.DiscardHandler),
	}
}

// Validate names every field that can't be.
func (c Config) Validate() error {
	var wrong []error
	check := func(ok bool, field, want string, got any) {
		if !ok {
			wrong = append(wrong, fmt.Errorf("config: %s: %v: want %s", field, got, want))
		}
	}
	absolute := func(field, path string, empty bool) {
		check(filepath.IsAbs(path) || empty && path == "", field, "an absolute path", fmt.Sprintf("%q", path))
	}
	between := func(field string, got, low, high int64) {
		check(low <= got && got <= high, field, fmt.Sprintf("%d..%d", low, high), got)
	}
	period := func(field string, got time.Duration) {
		check(time.Millisecond <= got && got <= time.Hour, field, "1ms..1h", got)
	}
	absolute("StateDir", c.StateDir, false)
	absolute("AuditDir", c.AuditDir, true)
	absolute("AuditKeyFile", c.AuditKeyFile, true)
	absolute("PolicyDir", c.PolicyDir, true)
	check(!c.Late.On || c.PolicyDir == "" && !c.TestedPolicy, "Late", "no PolicyDir and no TestedPolicy beside it: policy comes later, and is tested then", "on")
	check(c.Late.On || len(c.Late.Binders) == 0, "Late.Binders", "none without Late.On", c.Late.Binders)
	absolute("ProfileDir", c.ProfileDir, true)
	absolute("ClaimFile", c.ClaimFile, false)
	absolute("RunnerPath", c.RunnerPath, true)
	for _, path := range c.Show {
		absolute("Show", path, false)
	}
	between("Pool", int64(c.Pool), 0, 1024)
	between("MaxRunning", int64(c.MaxRunning), 1, 4096)
	between("MaxWaiting", int64(c.MaxWaiting), 0, 65_536)
	between("MaxSandboxes", int64(c.MaxSandboxes), 0, 4096)
	between("MaxWorkers", int64(c.MaxWorkers), 1, 4096)
	between("TmpBytes", c.TmpBytes, 64<<10, 1<<40)
	between("WorkBytes", c.WorkBytes, 64<<10, 1<<40)
	between("RootBytes", c.RootBytes, 64<<10, 1<<40)
	between("ImageBytes", c.ImageBytes, 1<<20, 1<<44)
	for i, named := range c.Images {
		check(named.Reference == "" || c.AllowPull, "Images", "AllowPull (--allow-pull) with an image of a registry", named.Reference)
		if named.Path != policy.ImageHost && named.Reference == "" {
			absolute("Images", named.Path, false)
		}
		check(!slices.ContainsFunc(c.Images[:i], func(other NamedImage) bool { return other.Name == named.Name }), "Images", "each name once", named.Name)
	}
	between("FirstUID", int64(c.FirstUID), 1000, math.MaxInt32)
	between("UIDs", int64(c.UIDs), 2, math.MaxInt32-int64(c.FirstUID))
	between("FileBytes", c.FileBytes, 1, 1<<34)
	between("BodyBytes", c.BodyBytes, 1024, 1<<30)
	between("InputBytes", c.InputBytes, 1, 1<<40)
	between("ValueBytes", c.ValueBytes, 1, 1<<40)
	between("SpoolBytes", c.SpoolBytes, max(c.InputBytes, c.ValueBytes), 1<<50) // else one that is allowed would never fit
	between("RequestMemory", c.RequestMemory, bodyWeight*c.BodyBytes, 1<<40)
	between("OutputMemory", c.OutputMemory, 2*valueMemory, 1<<40)
	between("AuditSlots", int64(c.AuditSlots), 1, 4096)
	between("AuditFileBytes", c.AuditFileBytes, 1<<16, 1<<40)
	between("MaxConnections", int64(c.MaxConnections), 0, 1<<20)
	period("QueueTimeout", c.QueueTimeout)
	period("DecisionTimeout", c.DecisionTimeout)
	period("GateTimeout", c.GateTimeout)
	period("SandboxTimeout", c.SandboxTimeout)
	period("RecordTimeout", c.RecordTimeout)
	period("KillTimeout", c.KillTimeout)
	period("HeaderTimeout", c.HeaderTimeout)
	period("BodyTimeout", c.BodyTimeout)
	period("IdleTimeout", c.IdleTimeout)
	period("WriteTimeout", c.WriteTimeout)
	period("StopTimeout", c.StopTimeout)
	check(0 <= c.DrainTimeout && c.DrainTimeout <= time.Hour, "DrainTimeout", "0..1h", c.DrainTimeout)
	for field, interval := range map[string]time.Duration{"DriftInterval": c.DriftInterval, "ProbeInterval": c.ProbeInterval} {
		check(interval == 0 || 10*time.Millisecond <= interval && interval <= 24*time.Hour, field, "0, or 10ms..24h", interval)
	}
	check(c.OnDrift == DriftKill || c.OnDrift == DriftDeny, "OnDrift", DriftKill+" or "+DriftDeny, fmt.Sprintf("%q", c.OnDrift))
	absolute("ResolvConf", c.ResolvConf, true)
	for _, resolver := range c.Resolvers {
		check(resolver.IsValid() && resolver.Port() != 0, "Resolvers", "addresses with ports", resolver)
	}
	between("NetworkConnections", int64(c.NetworkConnections), 0, 1<<20)
	between("SandboxConnections", int64(c.SandboxConnections), 1, 1<<20)
	between("PrewarmMemory", c.PrewarmMemory, 1<<20, 1<<40)
	period("PrewarmTimeout", c.PrewarmTimeout)
	if err := checkPrewarm(c.Prewarm); err != nil {
		wrong = append(wrong, fmt.Errorf("config: Prewarm: %w", err))
	}
	if err := c.checkAttach(); err != nil {
		wrong = append(wrong, err)
	}
	check(c.Logger != nil, "Logger", "a logger", "nil")
	if err := c.checkShow(); err != nil {
		wrong = append(wrong, fmt.Errorf("config: %w", err))
	}
	return errors.Join(wrong...)
}

// auditDir is where the audit log is.
func (c Config) auditDir() string {
	if c.AuditDir != "" {
		return c.AuditDir
	}
	return filepath.Join(c.StateDir, "audit")
}

// connections is how many there may be.
func (c Config) connections() int64 {
	if c.MaxConnections > 0 {
		return int64(c.MaxConnections)
	}
	return int64(max(1024, 2*(c.MaxRunning+c.MaxWaiting)))
}
