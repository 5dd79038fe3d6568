package image

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
)

// folder is an image in a directory. A link in it may lead within it and nowhere else.
type folder struct{ root *os.Root }

func (f folder) open(name string) (io.ReadCloser, error) {
	file, err := f.root.Open(name)
	if err != nil {
		return nil, err
	}
	if stat, err := file.Stat(); err != nil || !stat.Mode().IsRegular() {
		file.Close()
		return nil, errors.Join(err, fmt.Errorf("%s: not a file", name))
	}
	return file, nil
}

func (f folder) has(name string) bool {
	stat, err := f.root.Stat(name)
	return err == nil && stat.Mode().IsRegular()
}

// archive is an image in a tar file, by where the content of each of its files begins.
type archive struct {
	file  *os.File
	parts map[string]part
	// links are names that mean another file: docker save has one for a layer that two images share.
	links map[string]string
}

type part struct{ offset, size int64 }

// openArchive reads the names of a tar. What isn't a tar, or has too many, is an error.
func openArchive(file *os.File) (*archive, error) {
	a := &archive{file: file, parts: map[string]part{}, links: map[string]string{}}
	reader := tar.NewReader(file)
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return a, nil
		}
		if err != nil && !errors.Is(err, tar.ErrInsecurePath) {
			return nil, fmt.Errorf("not a tar: %w", err)
		}
		if len(a.parts)+len(a.links) >= mostFiles {
			return nil, fmt.Errorf("more than %d files", mostFiles)
		}
		name := strings.TrimPrefix(path.Clean("/"+header.Name), "/")
		switch header.Typeflag {
		case tar.TypeReg:
			offset, err := file.Seek(0, io.SeekCurrent) // a tar reader reads no further than it must
			if err != nil {
				return nil, err
			}
			a.parts[name] = part{offset, header.Size}
		case tar.TypeSymlink:
			a.links[name] = strings.TrimPrefix(path.Join("/", path.Dir(name), header.Linkname), "/")
		case tar.TypeLink:
			a.links[name] = strings.TrimPrefix(path.Clean("/"+header.Linkname), "/")
		}
	}
}

func (a *archive) find(name string) (part, bool) {
	for range 8 {
		if found, there := a.parts[name]; there {
			return found, true
		}
		next, there := a.links[name]
		if !there {
			break
		}
		name = next
	}
	return part{}, false
}

func (a *archive) open(name string) (io.ReadCloser, error) {
	found, there := a.find(path.Clean(name))
	if !there {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return io.NopCloser(io.NewSectionReader(a.file, found.offset, found.size)), nil
}

func (a *archive) has(name string) bool {
	_, there := a.find(name)
	return there
}
