package procfs

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// example is the status of a confined child in a PID namespace of its own, as Linux 6.18 writes it.
const example = "Name:\ta b\\n:\tc\n" +
	"Umask:\t0022\nState:\tS (sleeping)\nTgid:\t4000\nNgid:\t0\nPid:\t4000\nPPid:\t3990\nTracerPid:\t0\n" +
	"Uid:\t200001\t200001\t200001\t200001\nGid:\t200001\t200001\t200001\t200001\nFDSize:\t64\nGroups:\t20 1235 \n" +
	"NStgid:\t4000\t9\nNSpid:\t4000\t9\nNSpgid:\t4000\t9\nNSsid:\t4000\t9\nKthread:\t0\n" +
	"VmPeak:\t    3060 kB\nThreads:\t1\nSigQ:\t0/96364\nSigPnd:\t0000000000000000\nShdPnd:\t0000000000000000\n" +
	"SigBlk:\tfffffffffffbfeff\nSigIgn:\t0000000000001000\nSigCgt:\t0000000000000002\n" +
	"CapInh:\t0000000000000001\nCapPrm:\t0000000000000003\nCapEff:\t0000000000000007\nCapBnd:\t000001ffffffffff\nCapAmb:\t000000000000000f\n" +
	"NoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t1\nSpeculation_Store_Bypass:\tvulnerable\n" +
	"Mems_allowed_list:\t0\nvoluntary_ctxt_switches:\t0\n"

func TestParseStatus(t *testing.T) {
	got, err := ParseStatus([]byte(example))
	if err != nil {
		t.Fatal(err)
	}
	id := [4]int{200001, 200001, 200001, 200001}
	want := Status{
		Name: `a b\n:` + "\tc", TGID: 4000, PID: 4000, PPID: 3990, NSPID: []int{4000, 9}, NSSID: []int{4000, 9}, UIDs: id, GIDs: id, Groups: []int{20, 1235}, Umask: 0o22, FDSize: 64,
		SigBlocked: 0xfffffffffffbfeff, SigIgnored: 0x1000, SigCaught: 2, Inheritable: 1, Permitted: 3, Effective: 7, Bounding: 0x1ffffffffff, Ambient: 15,
		NoNewPrivs: 1, Seccomp: 2, SeccompFilters: 1,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Each line that is read must be there, once, in the form that the kernel writes.
func TestParseStatusIsStrict(t *testing.T) {
	for _, line := range statusLines {
		var kept, doubled, spaced []string
		for text := range strings.Lines(example) {
			key, value, _ := strings.Cut(text, ":")
			doubled, spaced = append(doubled, text), append(spaced, text)
			if key != line.key {
				kept = append(kept, text)
				continue
			}
			doubled = append(doubled, text)
			spaced[len(spaced)-1] = key + ": " + strings.TrimPrefix(value, "\t")
		}
		if len(kept) != strings.Count(example, "\n")-1 {
			t.Fatalf("the example has no line %s", line.key)
		}
		for what, lines := range map[string][]string{"without": kept, "twice": doubled, "with a blank for a tab in": spaced} {
			if _, err := ParseStatus([]byte(strings.Join(lines, ""))); err == nil {
				t.Errorf("a status %s %s is understood", what, line.key)
			}
		}
	}
	for _, edit := range [][2]string{
		{"Uid:\t200001\t200001\t200001\t200001", "Uid:\t200001\t200001\t200001"},
		{"Uid:\t200001\t200001\t200001\t200001", "Uid:\t200001\t200001\t200001\t200001\t200001"},
		{"Uid:\t200001", "Uid:\t-1"}, {"Uid:\t200001", "Uid:\t4294967296"}, {"Groups:\t20", "Groups:\tx"},
		{"CapBnd:\t000001ffffffffff", "CapBnd:\t1ffffffffff"}, {"CapBnd:\t000001ffffffffff", "CapBnd:\t000001fffffffffg"}, {"CapBnd:\t000001ffffffffff", "CapBnd:\t"},
		{"NoNewPrivs:\t1", "NoNewPrivs:\tyes"}, {"Umask:\t0022", "Umask:\t0082"}, {"NSpid:\t4000\t9", "NSpid:\t"}, {"State:\tS", "State:\tQ"},
		{"Seccomp:\t2\n", "Seccomp:\t2\nwithout colon\n"}, {"voluntary_ctxt_switches:\t0\n", "voluntary_ctxt_switches:\t0"},
	} {
		edited := strings.Replace(example, edit[0], edit[1], 1)
		if edited == example {
			t.Fatalf("%q isn't in the example", edit[0])
		}
		if got, err := ParseStatus([]byte(edited)); err == nil {
			t.Errorf("%q is understood: %+v", edit[1], got)
		}
	}
}

func TestParseStatusOfTheDead(t *testing.T) {
	for _, state := range []string{"Z (zombie)", "X (dead)"} {
		edited := strings.Replace(example, "S (sleeping)", state, 1)
		if _, err := ParseStatus([]byte(edited)); !errors.Is(err, os.ErrProcessDone) {
			t.Errorf("%s: %v", state, err)
		}
		// The kernel leaves the umask out for a zombie; it is told as ended all the same.
		edited = strings.Replace(edited, "Umask:\t0022\n", "", 1)
		if _, err := ParseStatus([]byte(edited)); !errors.Is(err, os.ErrProcessDone) {
			t.Errorf("%s without umask: %v", state, err)
		}
	}
}

func FuzzStatus(f *testing.F) {
	f.Add([]byte(example))
	f.Add([]byte(""))
	f.Add([]byte("Uid:\t1\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		status, err := ParseStatus(data)
		if err == nil && (len(status.NSPID) == 0 || status.Groups == nil || strings.Count(string(data), "\n") < len(statusLines)) {
			t.Errorf("%q became %+v", data, status)
		}
	})
}
