package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/sandboxd/sandboxd/policy"
)

// errBound says that an engine has its policy.
var errBound = errors.New("a policy is bound already")

// unbound is what an engine answers that waits for its policy.
func unbound() policy.Decision {
	decision := deny(policy.Reason{
		Rule:    ruleUnbound,
		Message: "No policy is bound to this daemon yet, so nothing is allowed; sandboxd policy bind, or PUT /v1/policy, gives it one, once.",
	})
	decision.ID = newID()
	return decision
}

// Bundle is a bundle by its files: paths with slashes, and contents.
type Bundle struct {
	Files map[string][]byte
	// Revision is the digest of all of it, as [Status] has it when it is in force.
	Revision string
}

// ReadBundle reads every file of a bundle, within the bounds of one.
func ReadBundle(fsys fs.FS) (Bundle, error) {
	src, err := readBundle(fsys)
	return Bundle{src.files, src.revision}, err
}

// NewBundle makes a bundle of files that came otherwise than by a file system, by the same rules.
func NewBundle(files map[string][]byte) (Bundle, error) {
	total := 0
	for name, content := range files {
		if !fs.ValidPath(name) || strings.Count(name, "/") > deepestFolder {
			return Bundle{}, fmt.Errorf("%.100q isn't the path of a bundle's file", name)
		}
		for part := range strings.SplitSeq(name, "/") {
			if ignored(part) {
				return Bundle{}, fmt.Errorf("%.100q would be left out of a bundle; leave it out", name)
			}
		}
		if err := checkFile(name, 0); err != nil {
			return Bundle{}, err
		}
		if len(content) > mostFileBytes {
			return Bundle{}, fmt.Errorf("%s: more than %d bytes", name, mostFileBytes)
		}
		if _, there := files[path.Dir(name)]; there {
			return Bundle{}, fmt.Errorf("%.100q is beneath a file", name)
		}
		total += len(content)
	}
	if total > mostTotalBytes || len(files) > mostFiles {
		return Bundle{}, fmt.Errorf("a bundle may have at most %d files and %d bytes", mostFiles, mostTotalBytes)
	}
	return Bundle{files, digestFiles(files)}, nil
}

// Proven is a bundle that an engine could put in force: it compiles, its tests pass, and it can say no.
type Proven struct{ generation *generation }

// Prove does all that a reload does, but for putting it in force.
func (e *Engine) Prove(ctx context.Context, b Bundle) (Proven, error) {
	next, err := e.load(ctx, source{b.Files, b.Revision})
	return Proven{next}, err
}

// Bind puts a bundle in force in an engine that was opened with [Options].Late. There is one binding: the error says that there was another.
func (e *Engine) Bind(p Proven) error {
	if !e.active.CompareAndSwap(nil, p.generation) {
		return errBound
	}
	return nil
}
