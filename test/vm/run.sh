#!/usr/bin/env bash
# Runs tests in a small virtual machine that has what a hybrid host lacks, cgroup version 2 with every controller, and lacks what a newer kernel
# has: Landlock above ABI 2, SO_PASSPIDFD, PIDFD_GET_INFO. There a limit must hold, and what is missing must be refused by name.
#
#   run.sh TESTBED [PACKAGE[=PATTERN]...]   TESTBED has vm.sh, PACKAGE is one of packages.txt; none: all. PATTERN in place of its tests there
#
# VM_VERBOSE shows the output of packages that hold, too. Without a testbed it says so and ends well; with one that can't run the tests it fails.
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
mkdir -p "$work/tests/bin/sabotage" "$work/dynamic/bin" "$work/dynamic/lib"
cp test/vm/guest.sh "$work/"
cp test/vm/tests.sh "$work/tests/"

export CGO_ENABLED=0
build=(-trimpath -ldflags '-s -w')
go build "${build[@]}" -o "$work/tests/bin/" ./cmd/sandboxd ./cmd/sandboxd-runner ./test/probe
go build "${build[@]}" -tags sabotage -o "$work/tests/bin/sabotage/" ./cmd/sandboxd ./cmd/sandboxd-runner
while read -r package bound out; do
	case $package in '' | '#'*) continue ;; esac
	if [ $# -gt 0 ]; then
		chosen=
		for word in "$@"; do
			case $word in "$package") chosen=$out ;; "$package"=*) chosen=${word#*=} ;; esac
		done
		test -n "$chosen" || continue
		out=$chosen
	fi
	go test -c "${build[@]}" -o "$work/tests/$package/the.test" "./$package"
	# Tests read files of their package's folder.
	for file in "$package"/testdata "$package"/*.json; do
		test ! -e "$file" || cp -r "$file" "$work/tests/$package/"
	done
	echo "$package $bound $out" >>"$work/tests/list"
done <test/vm/packages.txt
test -z "${VM_VERBOSE:-}" || touch "$work/tests/verbose"
if [ ! -e "$work/tests/list" ]; then
	echo "test-vm: none of $* is in test/vm/packages.txt" >&2
	exit 2
fi

# Programs that load libraries, as most do that run in a sandbox. What they load must lie where the loader looks without being told.
libraries() {
	local library
	for library in $(ldd "$1" | grep -o '/[^ )]*'); do
		cp -Lu "$library" "$work/dynamic/lib/"
	done
}
for program in sh cat echo ls nice sleep true; do
	path=$(type -P "$program")
	cp -L "$path" "$work/dynamic/bin/"
	libraries "$path"
done
# The distribution's own interpreter (test/tools.sh installs it), which needs nothing but its library.
if [ -x /usr/bin/python3 ]; then
	cp -L /usr/bin/python3 "$work/dynamic/bin/"
	libraries /usr/bin/python3
	library=$(/usr/bin/python3 -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')
	mkdir "$work/dynamic/lib/${library##*/}"
	tar -C "$library" --exclude './config-*' --exclude ./test --exclude ./idlelib --exclude ./tkinter --exclude ./lib2to3 --exclude ./ensurepip -c . |
		tar -C "$work/dynamic/lib/${library##*/}" -x
	for extension in "$library"/lib-dynload/*.so; do
		libraries "$extension"
	done
fi
# The kernel's module for the file system that hangs, where the testbed keeps modules.
find "${SANDBOXD_TESTBED_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/sandboxd-testbed}/vm" -name fuse.ko -exec cp {} "$work/" \; 2>/dev/null || true

# The bounds of the packages together are above this; what the emulator takes on a busy machine is not a failure of a test.
VM_MEM=${VM_MEM:-2048} VM_TIMEOUT=${VM_TIMEOUT:-1500} "$testbed/vm.sh" run "$work" sh /data/guest.sh
