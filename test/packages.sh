#!/usr/bin/env bash
# Runs the tests of packages under the race detector, one package at a time: kernel tests count processes, groups and descriptors.
#
# A package that fails is run once more, alone. These tests race against the kernel on machines that other work shares, and one in some thousands loses;
# a fault of ours that shows twice in a row fails the run. What passed only then is named at the end, since it is a fault of the test, or a rare one of ours.
#
#   packages.sh PACKAGE...
set -euo pipefail
export CGO_ENABLED=1

log=$(mktemp)
trap 'rm -f "$log"' EXIT
once() { go test -race -p 1 -timeout 15m "$@"; }

once "$@" 2>&1 | tee "$log" && exit 0
mapfile -t failed < <(sed -n 's/^FAIL[[:space:]]\+\([^[:space:]]\+\).*/\1/p' "$log" | sort -u)
if [ ${#failed[@]} -eq 0 ]; then # nothing that can be named: go test itself
	exit 1
fi
echo "again, once: ${failed[*]}"
once -count=1 "${failed[@]}"
printf 'flaky, passed when run again: %s\n' "${failed[@]}"
