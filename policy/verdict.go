package policy

// Evidence is how a row of a verdict is known.
type Evidence string

// The grades, strongest first.
const (
	// EvidenceKernel: the daemon read it from the kernel.
	EvidenceKernel Evidence = "kernel"
	// EvidenceProbe: a forbidden act was tried under the confinement and failed as it must.
	EvidenceProbe Evidence = "probe"
	// EvidenceReport: only the launcher says so.
	EvidenceReport Evidence = "report"
)

// Tier is what a place lets sandboxd enforce.
type Tier string

// The tiers.
const (
	TierFull       Tier = "full"
	TierNet        Tier = "net"
	TierRestricted Tier = "restricted"
)

// Row compares one control of the plan with what was found.
type Row struct {
	// Control names the mechanism and the part, such as "capabilities.bounding".
	Control  string   `json:"control"`
	Want     string   `json:"want"`
	Got      string   `json:"got"`
	Held     bool     `json:"held"`
	Evidence Evidence `json:"evidence"`
}

// Verdict is plan against state. The zero value doesn't hold.
type Verdict struct {
	Tier Tier  `json:"tier"`
	Rows []Row `json:"rows"`
	// Degraded has what the host lacks and policy accepted, each with its reason.
	Degraded []string `json:"degraded"`
}

// Held says that every row holds and that there is at least one.
func (v Verdict) Held() bool {
	for _, row := range v.Rows {
		if !row.Held {
			return false
		}
	}
	return len(v.Rows) > 0
}

// Failed returns the rows that don't hold.
func (v Verdict) Failed() []Row {
	var failed []Row
	for _, row := range v.Rows {
		if !row.Held {
			failed = append(failed, row)
		}
	}
	return failed
}

// Count says how many rows are known by each grade of evidence.
func (v Verdict) Count() map[Evidence]int {
	count := map[Evidence]int{EvidenceKernel: 0, EvidenceProbe: 0, EvidenceReport: 0}
	for _, row := range v.Rows {
		count[row.Evidence]++
	}
	return count
}

// Summary is the verdict as a reply carries it; the rows come on request.
type Summary struct {
	Held bool `json:"held"`
	Tier Tier `json:"tier"`
	// Evidence counts the rows by grade.
	Evidence EvidenceCount `json:"evidence"`
	Degraded []string      `json:"degraded"`
	// Digest is that of the whole verdict: "sha256:" and hex.
	Digest string `json:"digest"`
}

// EvidenceCount is how many rows are known by each grade of evidence.
type EvidenceCount struct {
	Kernel int `json:"kernel"`
	Probe  int `json:"probe"`
	Report int `json:"report"`
}

// Summary of the verdict. Degraded is never nil, so that it reads [] in every encoder.
func (v Verdict) Summary() Summary {
	count := v.Count()
	return Summary{
		Held: v.Held(), Tier: v.Tier, Degraded: append([]string{}, v.Degraded...), Digest: v.Digest(),
		Evidence: EvidenceCount{Kernel: count[EvidenceKernel], Probe: count[EvidenceProbe], Report: count[EvidenceReport]},
	}
}
