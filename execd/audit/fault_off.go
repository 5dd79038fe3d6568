//go:build !fault

package audit

// underFault is where the build with the tag fault puts a failing disk under the log: see test/faults. This build has the disk as it is.
func underFault(open func(path string) (file, error)) func(path string) (file, error) { return open }
