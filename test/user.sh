#!/usr/bin/env bash
# Runs the tests as an ordinary user: the tier where a user namespace stands in for root.
#
# The tests are built here and run there: that user has no Go, no module cache and perhaps no way into this folder, so that it gets a copy of
# the source tree, for testdata, with the test binaries beside it.
#
#   user.sh BIN [PACKAGE...]     BIN has sandboxd and sandboxd-runner
set -euo pipefail

bin=$(cd "$1" && pwd)
shift
if [ $# -eq 0 ]; then
	set -- ./enforcer/... ./runner/... ./execd/... ./cmd/...
fi
packages=$(go list "$@")

if [ "$(id -u)" -ne 0 ]; then
	echo "already an ordinary user: the tests above were this run"
	exit 0
fi

# An id that no account and no range of ours has.
uid=54321
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/source" "$dir/tests" "$dir/home" "$dir/tmp"
tar -cf - --exclude=./.git --exclude="./bin" . | tar -xf - -C "$dir/source"
install -D -m 0755 -t "$dir/bin" "$bin/sandboxd" "$bin/sandboxd-runner"
CGO_ENABLED=0 go build -trimpath -o "$dir/bin/probe" ./test/probe
chown -R "$uid:$uid" "$dir"
chmod 0755 "$dir"

module=$(go list -m)
failed=0
for package in $packages; do
	test -n "$(go list -f '{{join .TestGoFiles ""}}{{join .XTestGoFiles ""}}' "$package")" || continue
	folder=${package#"$module/"}
	binary=$dir/tests/${folder//\//-}.test
	go test -c -o "$binary" "$package"
	chmod 0755 "$binary"
	cd "$dir/source/$folder"
	if setpriv --reuid "$uid" --regid "$uid" --clear-groups --inh-caps=-all \
		env -i PATH=/usr/local/bin:/usr/bin:/bin HOME="$dir/home" TMPDIR="$dir/tmp" SANDBOXD_BIN="$dir/bin" \
		SANDBOXD_CONFORMANCE="${SANDBOXD_CONFORMANCE:-}" "$binary" -test.timeout 10m >"$dir/log" 2>&1; then
		printf 'ok  \t%s (ordinary user)\n' "$package"
	else
		failed=1
		printf 'FAIL\t%s (ordinary user)\n' "$package"
		cat "$dir/log"
	fi
	cd - >/dev/null
done
exit "$failed"
