//go:build fault

package audit

import (
	"bytes"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// underFault has a file of the log fail as the file that SANDBOXD_FAULT_DISK names says: "write EIO", "sync ENOSPC", "open EIO", "sync hang". Without that
// file, or with other words in it, the disk is well. A write that fails has written half.
func underFault(open func(path string) (file, error)) func(path string) (file, error) {
	return func(path string) (file, error) {
		if err := diskFault("open"); err != nil {
			return nil, &os.PathError{Op: "open", Path: path, Err: err}
		}
		real, err := open(path)
		return &failing{file: real}, err
	}
}

type failing struct {
	file
	// release says that the bytes written last had a release record.
	release bool
}

func (f *failing) Write(data []byte) (int, error) {
	if err := diskFault("write"); err != nil {
		n, _ := f.file.Write(data[:len(data)/2])
		return n, err
	}
	f.release = bytes.Contains(data, []byte(`"type":"release"`))
	f.fault("audit.write")
	if f.release && os.Getenv(faultPointVariable) == "audit.torn" {
		_, _ = f.file.Write(data[:len(data)/2])
	}
	f.fault("audit.torn")
	return f.file.Write(data)
}

func (f *failing) Sync() error {
	if err := diskFault("sync"); err != nil {
		return err
	}
	for hangs() {
		<-time.After(10 * time.Millisecond)
	}
	f.fault("audit.sync")
	return f.file.Sync()
}

// diskFault is the error of one kind of operation now, if any.
func diskFault(kind string) error {
	data, err := os.ReadFile(os.Getenv("SANDBOXD_FAULT_DISK"))
	if err != nil {
		return nil
	}
	words := strings.Fields(string(data))
	if len(words) != 2 || words[0] != kind {
		return nil
	}
	return map[string]error{"EIO": unix.EIO, "ENOSPC": unix.ENOSPC, "EROFS": unix.EROFS}[words[1]]
}

// hangs says that the disk doesn't answer now.
func hangs() bool {
	data, err := os.ReadFile(os.Getenv("SANDBOXD_FAULT_DISK"))
	return err == nil && string(data) == "sync hang"
}

// faultPointVariable names the point at which the daemon ends.
const faultPointVariable = "SANDBOXD_FAULT"

// fault kills this process if the point is the one that is asked for and a release is being written.
func (f *failing) fault(point string) {
	if f.release && os.Getenv(faultPointVariable) == point {
		_ = unix.Kill(unix.Getpid(), unix.SIGKILL)
		select {}
	}
}
