package file

// Code is a word for a fault that a caller can do something about.
type Code string

// The codes.
const (
	NotFound     Code = "NOT_FOUND"       // no such file, or no such directory on the way
	NotFile      Code = "NOT_A_FILE"      // it is there and isn't a regular file: Kind says what it is
	NotDirectory Code = "NOT_A_DIRECTORY" // so for a directory
	Link         Code = "LINK"            // a symbolic or magic link is in the path
	Outside      Code = "OUTSIDE"         // the path leads out of its place: "..", or another mount
	HardLink     Code = "HARD_LINK"       // the file has other names, and isn't the sandbox's own or is to be changed
	Forbidden    Code = "FORBIDDEN"       // the sandbox's own permissions are against it
	ReadOnly     Code = "READ_ONLY"       // nothing can be written there
	NoSpace      Code = "NO_SPACE"        // the file system is full
	NoInodes     Code = "NO_INODES"       // it has room for bytes and none for files
	Quota        Code = "QUOTA"           // the owner's share is used up
	TooLarge     Code = "TOO_LARGE"       // more than may be moved in one request
	BadRange     Code = "RANGE"           // the range begins behind the end
	BadName      Code = "NAME"            // a name that the file system doesn't take
	Changed      Code = "CHANGED"         // another program changed it meanwhile
	Incomplete   Code = "INCOMPLETE"      // the content ended before its end
	Exists       Code = "EXISTS"          // something is there already
	BadOwner     Code = "OWNER"           // the sandbox knows no such user or group
	BadPattern   Code = "PATTERN"         // it isn't a pattern
	Failed       Code = "FAILED"          // everything else
)

// Fault says why an operation came to nothing.
type Fault struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`
	// Errno is the kernel's answer, "" where it isn't the reason.
	Errno string `json:"errno,omitempty"`
	// Kind is what was found.
	Kind string `json:"kind,omitempty"`
	// Size is the file's, with TooLarge and BadRange.
	Size int64 `json:"size,omitzero"`
}

func (f *Fault) Error() string { return f.Message }
