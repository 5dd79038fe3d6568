package file

import (
	"encoding/json/v2"
	"fmt"
	"strings"
	"time"
)

// The operations.
const (
	Read   = "read"
	Write  = "write"
	Stat   = "stat"
	Delete = "delete"
	List   = "list"
	Mode   = "mode"
	// Gather lists the regular files beneath a directory, and reads those that fit.
	Gather = "gather"
)

// The operations of orders that follow links.
const (
	// Make makes a directory, and those above it; one that is there stays as it is.
	Make = "make"
	// Remove takes a directory away with all that is in it. It is fine when there is none.
	Remove = "remove"
	// Move gives another name that nothing has yet.
	Move = "move"
	// Own changes mode, owner and group, of those that are given.
	Own = "own"
	// Tree lists what lies beneath a directory, so many levels deep.
	Tree = "tree"
	// Search lists the regular files beneath a directory whose own name matches a pattern.
	Search = "search"
	// Replace replaces a text in a file; both come as content, the old one first.
	Replace = "replace"
)

// Descriptor is the number of the one that content goes through; only read, write and gather have it.
const Descriptor = 3

// Order is what the child is told.
type Order struct {
	Operation string `json:"operation"`
	// Base is the root of a mount of the sandbox; Path is relative to it, without empty parts, "." and "..". It is empty for the base itself.
	Base string `json:"base"`
	Path string `json:"path"`
	// Mode are permission bits, at most 0777: write gives them to the file, or -1 for those that the file has already, else 0644.
	Mode int `json:"mode"`
	// Parents has write make the directories that aren't there.
	Parents bool `json:"parents,omitzero"`
	// Limit is how many bytes of content may be moved (0: a gather moves none), how many bytes of JSON a list may take.
	Limit int64 `json:"limit"`
	// Range is the part that read is for.
	Range Range `json:"range,omitzero"`

	// Follow has the path, which is absolute then, mean what it means to a command; Base is empty.
	Follow bool `json:"follow,omitzero"`
	// To is where move moves it, absolute too.
	To string `json:"to,omitempty"`
	// Depth is how many levels a tree lists: 1 is the directory's own entries.
	Depth int `json:"depth,omitzero"`
	// Pattern is a search's, as path.Match has them.
	Pattern string `json:"pattern,omitempty"`
	// Owner and Group are names of the sandbox's, or numbers; write, make and own give them.
	Owner string `json:"owner,omitempty"`
	Group string `json:"group,omitempty"`
	// Lines are those that read is for; whole lines with what ends them.
	Lines Lines `json:"lines,omitzero"`
	// OldBytes is how much of a replace's content is the text that it looks for.
	OldBytes int64 `json:"oldBytes,omitzero"`
}

// Lines are some lines of a file: from First on, 1-based, and Count of them, all when it is negative.
type Lines struct {
	Given bool  `json:"given,omitzero"`
	First int64 `json:"first,omitzero"`
	Count int64 `json:"count,omitzero"`
}

// defaultMode is a new file's.
const defaultMode = 0o644

// Argument is the order as the child's argument.
func (o Order) Argument() string {
	text, err := json.Marshal(o)
	if err != nil {
		panic(fmt.Sprintf("file: bug: an order has no JSON form: %v; please report it", err))
	}
	return string(text)
}

// parts are the names of a path. Who made the order has looked at it as well; here it is where it counts.
func (o Order) parts() ([]string, error) {
	if o.Path == "" {
		return nil, nil
	}
	parts := strings.Split(o.Path, "/")
	for _, part := range parts {
		if part == "" || part == "." || part == ".." || strings.ContainsRune(part, 0) {
			return nil, &Fault{Code: Outside, Message: fmt.Sprintf("%.100q isn't a plain path", o.Path)}
		}
	}
	return parts, nil
}

// Result is what the child answers.
type Result struct {
	// Info is the file's as it was opened, or as it is now after a write or a change of mode.
	Info *Info `json:"info,omitzero"`
	// Created says that a write made a file where there was none.
	Created bool `json:"created,omitzero"`
	// Bytes of content were moved.
	Bytes int64 `json:"bytes,omitzero"`
	// Changed says that the file's size changed while it was read.
	Changed bool `json:"changed,omitzero"`
	// Entries are a directory's, in the order of their names; Truncated says that there are more.
	Entries   []Info `json:"entries,omitempty"`
	Truncated bool   `json:"truncated,omitzero"`
	// Sent are the entries, by index, whose content a gather has sent, in that order.
	Sent []int `json:"sent,omitempty"`
	// Found is what stat, tree and search of an order that follows links have found; Truncated is about them as well.
	Found []Found `json:"found,omitempty"`
	// Replaced is how often a replace found its text.
	Replaced int64  `json:"replaced,omitzero"`
	Fault    *Fault `json:"fault,omitzero"`
}

// Info is what a file is, by lstat(2).
type Info struct {
	// Name is set in lists, of a gather with the directories in it; NameBase64 in its place when it isn't UTF-8.
	Name       string `json:"name,omitempty"`
	NameBase64 []byte `json:"nameBase64,omitempty"`
	Kind       string `json:"kind"`
	Size       int64  `json:"size"`
	// Mode are the permission bits in octal: "0644".
	Mode       string    `json:"mode"`
	ModifiedAt time.Time `json:"modifiedAt"`
}

// Found is what a file is, as orders that follow links are told. The owners are names, or the number where there is none.
type Found struct {
	Info
	CreatedAt time.Time `json:"createdAt"`
	Owner     string    `json:"owner"`
	Group     string    `json:"group"`
}

// The kinds.
const (
	KindFile      = "file"
	KindDirectory = "directory"
	KindLink      = "symbolic link"
	KindFIFO      = "FIFO"
	KindSocket    = "socket"
	KindCharacter = "character device"
	KindBlock     = "block device"
	KindUnknown   = "unknown"
)

// Header comes before the content of a read: the length of its JSON in four bytes, little endian, then the JSON.
type Header struct {
	Info Info `json:"info"`
	// Offset and Length are the part that follows.
	Offset int64 `json:"offset"`
	Length int64 `json:"length"`
	// Part says that it answers a range.
	Part bool `json:"part,omitzero"`
}

// Frames are how content is written: each has its length in four bytes, little endian, and that many bytes. One without bytes is the end: a
// content that ends without it was cut, and no file comes of it.
const LargestFrame = 256 << 10

// largestHeader bounds what the daemon reads of a header.
const largestHeader = 4 << 10
