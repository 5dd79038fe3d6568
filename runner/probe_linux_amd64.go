package runner

// foreignGetpid is getpid(2) by the 32 bit entry, int 0x80: a pid, or minus an errno.
func foreignGetpid() int64
