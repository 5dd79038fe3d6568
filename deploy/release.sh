#!/usr/bin/env bash
# What is released, for both architectures: dist/linux-ARCH/{sandboxd,sandboxd-runner}, a bill of materials of each, and SHA256SUMS of all.
# The same source, version and toolchain (that of go.mod) give the same bytes, wherever it is built: no path, no time and no build id is in them.
#
#   release.sh [DIR]     DIR in place of dist. VERSION is what `sandboxd version` says; what git calls the commit unless given
set -euo pipefail
cd "$(dirname "$0")/.."
dist=${1:-dist}
sbom=github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0

export GOTOOLCHAIN=auto CGO_ENABLED=0
version=${VERSION:-$(git describe --tags --always --dirty 2>/dev/null || echo unversioned)}
# Not by the Go command, which would have the same source come out otherwise in an archive of it.
build=(-trimpath -buildvcs=false)
for arch in ${ARCHITECTURES:-amd64 arm64}; do
	out=$dist/linux-$arch
	mkdir -p "$out"
	for program in sandboxd sandboxd-runner; do
		flags='-s -w -buildid='
		[ "$program" != sandboxd ] || flags+=" -X main.released=$version"
		GOOS=linux GOARCH=$arch go build "${build[@]}" -ldflags "$flags" -o "$out/$program" "./cmd/$program"
		# From the modules that the binary itself names.
		go run "$sbom" bin -json -noserial "$out/$program" 2>/dev/null | grep -v '^ *"timestamp":' >"$out/$program.cdx.json"
	done
done
cd "$dist"
find . -type f ! -name SHA256SUMS -printf '%P\n' | LC_ALL=C sort | xargs sha256sum >SHA256SUMS
