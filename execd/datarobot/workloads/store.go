package workloads

import (
	"encoding/json/v2"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// store keeps workloads as files: ID.json, what is known of one, and ID.log, the elements of the JSON array of its entries. Both appear whole, or not
// at all.
type store struct{ dir string }

// kept is what a file says of a workload. One without an ending hadn't ended when it was written.
type kept struct {
	ID      string    `json:"id"`
	Name    string    `json:"name"`
	Created time.Time `json:"created"`
	Ended   time.Time `json:"ended,omitzero"`
	Ending  *ending   `json:"ending,omitempty"`
	Marks   []mark    `json:"marks,omitempty"`
	Size    int64     `json:"size,omitempty"`
}

const (
	stateSuffix = ".json"
	logSuffix   = ".log"
	newSuffix   = ".new"
)

// openStore makes the directory, which is nobody else's, and takes away what was being written when a daemon died.
func openStore(dir string) (store, error) {
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return store{}, fmt.Errorf("workloads: %w", err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return store{}, fmt.Errorf("workloads: %w", err)
	}
	info, err := os.Lstat(dir)
	switch {
	case err != nil:
		return store{}, fmt.Errorf("workloads: %w", err)
	case !info.IsDir() || info.Mode().Perm()&0o077 != 0:
		return store{}, fmt.Errorf("workloads: %s is %s; want a directory with mode 0700", dir, info.Mode())
	}
	unfinished, err := filepath.Glob(filepath.Join(dir, "*"+newSuffix))
	for _, name := range unfinished {
		err = errors.Join(err, os.Remove(name))
	}
	return store{dir}, err
}

// all are the workloads that are kept. One whose file can't be read is there without an ending: it is lost, and must not be taken for none.
func (s store) all() ([]kept, error) {
	names, err := filepath.Glob(filepath.Join(s.dir, "*"+stateSuffix))
	if err != nil {
		return nil, err
	}
	list := make([]kept, 0, len(names))
	for _, name := range names {
		id := strings.TrimSuffix(filepath.Base(name), stateSuffix)
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("workloads: %w", err)
		}
		k := kept{}
		if err := json.Unmarshal(data, &k, json.RejectUnknownMembers(true)); err != nil || k.ID != id {
			k = kept{ID: id}
		}
		if k.Ending != nil && k.Ending.Failure == nil {
			if info, err := os.Stat(s.log(id)); err != nil || info.Size() != k.Size {
				k.Ending = nil
			}
		}
		list = append(list, k)
	}
	return list, nil
}

// put writes what is known of a workload, durably.
func (s store) put(k kept) error {
	data, err := json.Marshal(k)
	if err != nil {
		return fmt.Errorf("workloads: %w", err)
	}
	return s.write(k.ID+stateSuffix, func(file *os.File) error {
		_, err := file.Write(data)
		return err
	})
}

// putLog writes a log.
func (s store) putLog(id string, entries iter.Seq[entry]) (marks []mark, size int64, err error) {
	err = s.write(id+logSuffix, func(file *os.File) (err error) {
		marks, size, err = writeEntries(file, entries)
		return err
	})
	return marks, size, err
}

// write makes a file appear whole.
func (s store) write(name string, fill func(*os.File) error) error {
	path := filepath.Join(s.dir, name)
	file, err := os.OpenFile(path+newSuffix, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("workloads: %w", err)
	}
	err = fill(file)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(path+newSuffix, path)
	}
	if err != nil {
		_ = os.Remove(path + newSuffix) // the error before is the one to tell
		return fmt.Errorf("workloads: %w", err)
	}
	return syncDir(s.dir)
}

// syncDir makes names durable.
func syncDir(dir string) error {
	file, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("workloads: %w", err)
	}
	return errors.Join(file.Sync(), file.Close())
}

// remove takes a workload away; what isn't there is no error. The log goes first: a state without one is a lost workload, a log without a state nobody
// would ever find.
func (s store) remove(id string) error {
	var errs []error
	for _, name := range []string{s.log(id), filepath.Join(s.dir, id+stateSuffix)} {
		if err := os.Remove(name); !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (s store) log(id string) string { return filepath.Join(s.dir, id+logSuffix) }
