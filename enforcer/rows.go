package enforcer

import (
	"strconv"
	"strings"

	"github.com/sandboxd/sandboxd/enforcer/procfs"
	"github.com/sandboxd/sandboxd/policy"
)

// table collects the rows of a verdict.
type table struct {
	rows []policy.Row
}

// mostRows is room for the rows of a usual verdict.
const mostRows = 96

func (t *table) add(control string, evidence policy.Evidence, want, got string, held bool) {
	t.rows = append(t.rows, policy.Row{Control: control, Want: want, Got: got, Held: held, Evidence: evidence})
}

// equal is a row of what the kernel said, which holds when it is what was wanted.
func (t *table) equal(control, want, got string) {
	t.add(control, policy.EvidenceKernel, want, got, want == got)
}

func (t *table) number(control string, want, got int) {
	t.equal(control, strconv.Itoa(want), strconv.Itoa(got))
}

// threads adds one row where all threads say the same, else one for each thread, by its id. No thread at all is a row that doesn't hold.
func (t *table) threads(control, want string, threads []procfs.Status, text func(procfs.Status) string) {
	t.everyThread(control, want, threads, text, func(got string, _ procfs.Status) bool { return got == want })
}

func (t *table) everyThread(control, want string, threads []procfs.Status, text func(procfs.Status) string, holds func(string, procfs.Status) bool) {
	if len(threads) == 0 {
		t.add(control, policy.EvidenceKernel, want, "no thread", false)
		return
	}
	first := text(threads[0])
	same := true
	for _, thread := range threads[1:] {
		same = same && text(thread) == first
	}
	if same {
		t.add(control, policy.EvidenceKernel, want, first, holds(first, threads[0]))
		return
	}
	for _, thread := range threads {
		got := text(thread)
		t.add(control+"["+strconv.Itoa(thread.PID)+"]", policy.EvidenceKernel, want, got, holds(got, thread))
	}
}

// list is numbers separated by blanks.
func list(numbers []int) string {
	var text strings.Builder
	for i, number := range numbers {
		if i > 0 {
			text.WriteByte(' ')
		}
		text.WriteString(strconv.Itoa(number))
	}
	if len(numbers) == 0 {
		return "none"
	}
	return text.String()
}

// limitText is a resource limit for people; soft and hard are told apart only where they differ.
func limitText(soft, hard int64) string {
	if soft == hard {
		return limitValue(soft)
	}
	return limitValue(soft) + "/" + limitValue(hard)
}

func limitValue(value int64) string {
	if value < 0 {
		return "unlimited"
	}
	return strconv.FormatInt(value, 10)
}

func maskText(mask uint64) string { return "0x" + strconv.FormatUint(mask, 16) }

func octal(mode int) string { return "0" + strconv.FormatInt(int64(mode), 8) }
