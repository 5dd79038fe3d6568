// Package seccomp compiles an OCI seccomp profile to one classic BPF program for the native architecture: a balanced tree over system call
// numbers (seccomp(2) runs it at every call, and the kernel emulates it for every number at install, so its depth is the cost).
// Foreign architectures and x32 numbers are killed, numbers above the last known answer ENOSYS.
//
//	ParseProfile, RuntimeDefault   words to Profile: rules of names, tests and actions
//	BaseTightening                 what is refused on top of any profile
//	Compile                        per number one decision (decide.go), equal neighbours merged, then the tree (assemble.go)
//	Run                            the simulator, by which tests and NewFilter know what a program answers
//	Explaining, Observing          the same filter with a listener that hears of calls (listener.go)
//	Builtin                        the profiles that come with sandboxd, each a few edits to RuntimeDefault (builtin.go)
//	Compare                        what a profile allows beyond RuntimeDefault (compare.go)
//	RestrictSelf                   a program on the calling thread
//	Readback                       what the kernel says is installed
//
// Everything but the last two is pure. The daemon compiles, once per profile; the launcher reads a Program and installs it.
package seccomp

// Instruction is struct sock_filter.
type Instruction struct {
	Code uint16
	JT   uint8
	JF   uint8
	K    uint32
}

// Program is a classic BPF program. Its JSON form is base64 of the kernel's bytes (8 a row, host byte order).
type Program []Instruction

// Filter is what a plan installs: a compiled profile, and calls that it must refuse, tried in the child before the gate.
type Filter struct {
	// Profile is "RuntimeDefault", "Localhost/NAME" or "Unconfined" (then Program is empty).
	Profile string  `json:"profile"`
	Program Program `json:"program"`
	// Probes are harmless calls with the errno that this program answers.
	Probes []Probe `json:"probes"`
	// Listener says what the program asks its listener about: [ListenerExplain], [ListenerObserve], or empty, when it has none.
	Listener string `json:"listener,omitzero"`
	// Answers is the program without a listener: what a listener that explains answers by.
	Answers Program `json:"answers,omitzero"`
}

// Probe is a system call that the filter refuses.
type Probe struct {
	Name  string    `json:"name"`
	Nr    uintptr   `json:"nr"`
	Args  [6]uint64 `json:"args"`
	Errno int       `json:"errno"`
}
