package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
)

func (p *program) version(_ context.Context, flags *flagSet, args []string) (int, error) {
	if err := flags.parse(args); err != nil {
		return 0, err
	}
	if err := flags.noArguments(); err != nil {
		return 0, err
	}
	fmt.Fprintf(p.stdout, "sandboxd %s %s %s/%s\n", buildVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return 0, nil
}

// released is the version that deploy/release.sh has the linker put in.
var released string

// buildVersion is that of a release, or what the Go command stamped into the binary: a tag, or a pseudo-version with the commit.
func buildVersion() string {
	if released != "" {
		return released
	}
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "devel"
	}
	return info.Main.Version
}
