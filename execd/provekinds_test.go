package execd

import (
	"errors"
	"testing"

	"github.com/sandboxd/sandboxd/policy"
	"github.com/sandboxd/sandboxd/test/kerneltest"
)

// TestProofOfEachKind: what the acts must come to is right for each kind of plan, in each kind of root. A proof that fails for a wrong expectation stops
// everything under that plan, and so does one that is never right.
func TestProofOfEachKind(t *testing.T) {
	needRoot(t) // images
	kerneltest.Require(t, kerneltest.Landlock(1))
	s, made := startImages(t, smallRoot(t), func(c *Config) { c.ProbeInterval = 0 })
	roots := map[string]rootSpec{"host": {}, "image": {image: &made}, "image that is written": {image: &made, writable: true}}
	for root, spec := range roots {
		image := ""
		if spec.image != nil {
			image = "small"
		}
		box, err := s.sandboxes.create(t.Context(), Self(), spec, image)
		if err != nil {
			t.Fatal(err)
		}
		command := policy.Request{Action: policy.ActionExec, Caller: Self(), Sandbox: box.id, Command: policy.Command{Argv: []string{"/bin/sh", "-c", "true"}}}
		reading := command
		reading.Command.ReadOnly = true
		writing := command
		writing.SecurityContext.ReadOnlyRootFilesystem = new(!spec.writable)
		writingNothing := writing
		writingNothing.Command.ReadOnly = true
		operation := policy.Request{Action: policy.ActionFile, Caller: Self(), Sandbox: box.id,
			File: policy.File{Operation: policy.FileRead, Path: "/work/x", Follow: true}}
		operationReading := operation
		operationReading.Command.ReadOnly = true
		kinds := map[string]policy.Request{"a command": command, "one that reads only": reading, "one with the root's own context": writing,
			"that reads only": writingNothing, "an operation on files": operation, "one of a session that reads only": operationReading}
		for kind, request := range kinds {
			t.Run(root+": "+kind, func(t *testing.T) {
				var options Options
				if request.Action == policy.ActionFile {
					options.transfer = &transfer{operation: request.File.Operation}
				}
				w, err := s.enter(t.Context(), request, options)
				if err != nil {
					t.Fatal(err)
				}
				defer s.leave(w)
				if err := errors.Join(w.decide(), w.build()); err != nil {
					t.Fatal(err)
				}
				proof, err := s.proveFresh(t.Context(), w.plan, w.box.root)
				if err != nil || !proof.held() {
					t.Errorf("%v %+v", err, proof.Failed)
				}
			})
		}
	}
}
