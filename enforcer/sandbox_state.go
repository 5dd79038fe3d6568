package enforcer

import (
	"fmt"

	"github.com/sandboxd/sandboxd/enforcer/network/fence"
	"github.com/sandboxd/sandboxd/enforcer/procfs"
)

// SandboxState is what the kernel says of a launcher, and so of its sandbox.
type SandboxState struct {
	// Threads has the status of each of the launcher's threads.
	Threads []procfs.Status `json:"threads"`
	// FDs are number and link text. Exe and Root are link texts, ExeID and RootID "major:minor:inode" of what they lead to.
	FDs    map[int]string `json:"fds"`
	Exe    string         `json:"exe"`
	ExeID  string         `json:"exeId"`
	Root   string         `json:"root"`
	RootID string         `json:"rootId"`
	// EnvironOwner is the uid that owns /proc/PID/environ: not the launcher's own when it isn't dumpable.
	EnvironOwner int `json:"environOwner"`
	// Mounts are in the kernel's order. HostDevices are the devices of the daemon's own mounts.
	Mounts      []procfs.Mount  `json:"mounts"`
	HostDevices map[string]bool `json:"-"`
	// RootSize is what statfs(2) says of the launcher's root, in the words of a tmpfs: "size=1024k nr_inodes=1024".
	RootSize string `json:"rootSize"`
	// LayerSize is the same of an overlay that isn't the root; empty where there is none.
	LayerSize string `json:"layerSize,omitempty"`
	// ImageOwners has, for the directories right below the root of an image, whose they are on the disk and in the sandbox.
	ImageOwners map[string][2]int `json:"imageOwners,omitempty"`
	// Owners has who owns the root directory of each tmpfs and overlay, by target, as the daemon's user namespace numbers them.
	Owners map[string]Owner `json:"owners"`
	// Namespaces are inode numbers, of all [NamespaceNames].
	Namespaces map[string]uint64 `json:"namespaces"`
	// UIDMap and GIDMap are rows of {inside, outside, length}; SetGroups is "allow" or "deny".
	UIDMap    [][3]uint32 `json:"uidMap"`
	GIDMap    [][3]uint32 `json:"gidMap"`
	SetGroups string      `json:"setGroups"`
	// Links are the names of all network devices; Routes, Routes6 and Addresses6 those of the devices that have such, each once, sorted.
	Links      []string `json:"links"`
	Routes     []string `json:"routes"`
	Routes6    []string `json:"routes6"`
	Addresses6 []string `json:"addresses6"`
	// Outline is the launcher's, and Own the daemon's; OwnMounts are the daemon's mounts. Only of a launcher that isn't our child.
	Outline   Outline        `json:"outline,omitzero"`
	Own       Outline        `json:"own,omitzero"`
	OwnMounts []procfs.Mount `json:"-"`
	// Fence is what was read through the fence's own sockets; nothing where there is none.
	Fence fence.State `json:"fence,omitzero"`
	// Hostname is the launcher's; HostnameRead says that the daemon read it, else only the launcher says so.
	Hostname     string `json:"hostname"`
	HostnameRead bool   `json:"hostnameRead"`
}

// Owner is who owns a directory, and its permission bits.
type Owner struct {
	UID  int    `json:"uid"`
	GID  int    `json:"gid"`
	Mode uint32 `json:"mode"`
}

func (o Owner) String() string { return fmt.Sprintf("%d:%d %04o", o.UID, o.GID, o.Mode) }
