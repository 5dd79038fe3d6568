package execd

import (
	"context"
	"maps"

	"github.com/sandboxd/sandboxd/policy"
)

// LayerSandbox is [Service.MakeSandbox] of one whose /work is a layer over that of r.Sandbox, which must be the caller's: it shows the files there, and what is
// written stays in it, within the size of a /work. Its image is that one's, and so is its user; everything else is its own, its network too. It ends with that one at the latest.
//
// While it is there programs of the other should leave alone what programs of this one read: of a file that changes beneath a layer the kernel promises no more than that
// nothing breaks but what is read (Documentation/filesystems/overlayfs.rst, "Changes to underlying filesystems").
func (s *Service) LayerSandbox(ctx context.Context, r policy.Request) (Sandbox, error) {
	lower, err := s.sandboxes.join(r.Sandbox, r.Caller)
	if err != nil {
		return Sandbox{}, err
	}
	defer s.sandboxes.putBack(lower) // until then it doesn't end
	if lower.paused.Load() {
		return Sandbox{}, asRefused(&deniedError{[]policy.Reason{{Rule: "host.sandbox", Message: ErrPaused.Error(), Field: "sandbox"}}})
	}
	return s.makeSandbox(ctx, r, lower)
}

// layersOver takes those sandboxes away whose layers lie on that one.
func (h *sandboxes) layersOver(box *sandbox) (above []*sandbox) {
	h.mu.Lock()
	defer h.mu.Unlock()
	maps.DeleteFunc(h.kept, func(_ string, kept *sandbox) bool {
		if kept.root.over == box {
			above = append(above, kept)
		}
		return kept.root.over == box
	})
	return above
}
