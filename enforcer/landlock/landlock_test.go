package landlock

import (
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

func TestForHandlesAllOfItsABI(t *testing.T) {
	// The masks of include/uapi/linux/landlock.h at each version, by number and not by the names that the code uses.
	for _, want := range []Ruleset{
		{ABI: 0},
		{ABI: 1, HandledFS: 0x1fff},
		{ABI: 2, HandledFS: 0x3fff},
		{ABI: 3, HandledFS: 0x7fff},
		{ABI: 4, HandledFS: 0x7fff, HandledNet: 3},
		{ABI: 5, HandledFS: 0xffff, HandledNet: 3},
		{ABI: 6, HandledFS: 0xffff, HandledNet: 3, Scoped: 3},
		{ABI: 7, HandledFS: 0xffff, HandledNet: 3, Scoped: 3},
		{ABI: 8, HandledFS: 0xffff, HandledNet: 3, Scoped: 3},
		{ABI: 9, HandledFS: 0x1ffff, HandledNet: 3, Scoped: 3},
		{ABI: 10, HandledFS: 0x1ffff, HandledNet: 0xf, Scoped: 3},
		{ABI: 1000, HandledFS: 0x1ffff, HandledNet: 0xf, Scoped: 3},
	} {
		got := For(want.ABI, nil, nil)
		if got.HandledFS != want.HandledFS || got.HandledNet != want.HandledNet || got.Scoped != want.Scoped {
			t.Errorf("ABI %d: %#x %#x %#x", want.ABI, got.HandledFS, got.HandledNet, got.Scoped)
		}
	}
}

// TestForNeverGrantsMore: what a rule grants is what was asked, as far as it is handled.
func TestForNeverGrantsMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		abi := rapid.IntRange(0, 12).Draw(t, "abi")
		path := PathRule{Path: "/x", Access: rapid.Uint64().Draw(t, "path")}
		port := PortRule{Port: 1, Access: rapid.Uint64().Draw(t, "port")}
		r := For(abi, []PathRule{path}, []PortRule{port})
		for _, rule := range r.Paths {
			if rule.Access&^(path.Access&r.HandledFS) != 0 || rule.Access == 0 {
				t.Fatalf("%#x of %#x", rule.Access, path.Access)
			}
		}
		for _, rule := range r.Ports {
			if rule.Access&^(port.Access&r.HandledNet) != 0 || rule.Access == 0 {
				t.Fatalf("%#x of %#x", rule.Access, port.Access)
			}
		}
		if (path.Access&r.HandledFS != 0) != (len(r.Paths) == 1) || (port.Access&r.HandledNet != 0) != (len(r.Ports) == 1) {
			t.Fatal("a rule too many or too few")
		}
	})
}

func TestGrantsHaveNoDeviceFiles(t *testing.T) {
	if Write&(unix.LANDLOCK_ACCESS_FS_MAKE_CHAR|unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK|unix.LANDLOCK_ACCESS_FS_IOCTL_DEV) != 0 ||
		Device&unix.LANDLOCK_ACCESS_FS_IOCTL_DEV != 0 || Read&unix.LANDLOCK_ACCESS_FS_WRITE_FILE != 0 {
		t.Errorf("read %#x, write %#x, device %#x", Read, Write, Device)
	}
}
