#!/usr/bin/env bash
# Runs tests in a small virtual machine that has what a hybrid host lacks, cgroup version 2 with every controller, and lacks what a newer kernel
# has: Landlock above ABI 2, SO_PASSPIDFD, PIDFD_GET_INFO. There a limit must hold, and what is missing must be refused by name.
#
#   run.sh TESTBED [PACKAGE...]     TESTBED has vm.sh, PACKAGE is one of packages.txt; none: all
#
# Without a testbed it says so and ends well; with one that can't run the tests it fails.
set -euo pipefail

testbed=${1:-}
shift || true
if [ -z "$testbed" ]; then
	echo "SKIP test-vm: no testbed; SANDBOXD_TESTBED names the directory that has vm.sh"
	exit 0
fi
cd "$(dirname "$0")/../.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/tests/bin" "$work/dynamic/bin" "$work/dynamic/lib"
cp test/vm/guest.sh "$work/"
cp test/vm/tests.sh "$work/tests/"

export CGO_ENABLED=0
build=(-trimpath -ldflags '-s -w')
go build "${build[@]}" -o "$work/tests/bin/" ./cmd/sandboxd ./cmd/sandboxd-runner ./test/probe
while read -r package bound out; do
	case $package in '' | '#'*) continue ;; esac
	if [ $# -gt 0 ] && [[ " $* " != *" $package "* ]]; then
		continue
	fi
	go test -c "${build[@]}" -o "$work/tests/$package/the.test" "./$package"
	# Tests read files of their package's folder.
	for file in "$package"/testdata "$package"/*.json; do
		test ! -e "$file" || cp -r "$file" "$work/tests/$package/"
	done
	echo "$package $bound $out" >>"$work/tests/list"
done <test/vm/packages.txt
if [ ! -e "$work/tests/list" ]; then
	echo "test-vm: none of $* is in test/vm/packages.txt" >&2
	exit 2
fi

# Programs that load libraries, as most do that run in a sandbox. What they load must lie where the loader looks without being told.
for program in cat echo sleep true; do
	path=$(type -P "$program")
	cp -L "$path" "$work/dynamic/bin/"
	for library in $(ldd "$path" | grep -o '/[^ )]*'); do
		cp -L "$library" "$work/dynamic/lib/"
	done
done

# The bounds of the packages together are above this; what the emulator takes on a busy machine is not a failure of a test.
VM_TIMEOUT=${VM_TIMEOUT:-480} "$testbed/vm.sh" run "$work" sh /data/guest.sh
