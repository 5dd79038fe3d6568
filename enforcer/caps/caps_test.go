package caps

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

func TestNamesAreTheKernels(t *testing.T) {
	for name, number := range map[string]int{
		"cap_chown": unix.CAP_CHOWN, "cap_setpcap": unix.CAP_SETPCAP, "cap_net_raw": unix.CAP_NET_RAW, "cap_sys_admin": unix.CAP_SYS_ADMIN,
		"cap_setfcap": unix.CAP_SETFCAP, "cap_syslog": unix.CAP_SYSLOG, "cap_bpf": unix.CAP_BPF, "cap_checkpoint_restore": unix.CAP_CHECKPOINT_RESTORE,
	} {
		if got := Name(number); got != name {
			t.Errorf("Name(%d) = %s, want %s", number, got, name)
		}
	}
	if len(names) != unix.CAP_LAST_CAP+1 {
		t.Errorf("%d names for %d capabilities", len(names), unix.CAP_LAST_CAP+1)
	}
}

func TestNumber(t *testing.T) {
	for name, want := range map[string]int{"cap_sys_admin": 21, "SYS_ADMIN": 21, "CAP_Chown": 0} {
		if got, err := Number(name); err != nil || got != want {
			t.Errorf("Number(%q) = %d, %v; want %d", name, got, err, want)
		}
	}
	for _, name := range []string{"", "ALL", "cap_cap_chown", "sysadmin", "cap_41"} {
		if got, err := Number(name); err == nil {
			t.Errorf("Number(%q) = %d, want an error", name, got)
		}
	}
}

func TestText(t *testing.T) {
	for set, want := range map[uint64]string{
		0:                  "none",
		1:                  "cap_chown",
		1 << 21:            "cap_sys_admin",
		1<<8 | 1<<6:        "cap_setgid,cap_setpcap",
		1<<63 | 1<<40:      "cap_checkpoint_restore,cap_63",
		All(40) &^ All(38): "cap_bpf,cap_checkpoint_restore",
	} {
		if got := Text(set); got != want {
			t.Errorf("Text(%#x) = %s, want %s", set, got, want)
		}
	}
}

// Text loses nothing: the set can be made again from it.
func TestTextIsWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set := rapid.Uint64().Draw(t, "set") & All(40)
		var back uint64
		if set != 0 {
			for _, name := range strings.Split(Text(set), ",") {
				number, err := Number(name)
				if err != nil {
					t.Fatal(err)
				}
				back |= 1 << number
			}
		}
		if back != set {
			t.Fatalf("%#x became %#x", set, back)
		}
	})
}

func TestAll(t *testing.T) {
	for last, want := range map[int]uint64{-1: 0, 0: 1, 40: 1<<41 - 1, 63: ^uint64(0)} {
		if got := All(last); got != want {
			t.Errorf("All(%d) = %#x, want %#x", last, got, want)
		}
	}
	if Has(All(40), 41) || !Has(All(40), 40) || Has(All(63), 64) || Has(All(63), -1) {
		t.Error("Has is off by one")
	}
}

func TestLast(t *testing.T) {
	last, err := Last()
	if err != nil {
		t.Fatal(err)
	}
	// The kernel itself says which numbers it knows: prctl answers EINVAL above the last.
	if _, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, uintptr(last), 0, 0, 0); err != nil {
		t.Errorf("capability %d: %v", last, err)
	}
	if _, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, uintptr(last+1), 0, 0, 0); err == nil {
		t.Errorf("capability %d is known beyond the last (as %d)", last+1, os.Getuid())
	}
}
