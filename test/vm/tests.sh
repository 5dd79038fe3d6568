#!/bin/sh
# Runs the tests of /tests/list inside of the machine: package, bound in seconds, and which tests, as packages.txt says it. One line for each package, then
# the reasons of its skips; the whole output of one that fails.

# What this kernel lacks of what rows of the catalogue need. A row that is left out for another reason is a failure, and so is a name for which none is:
# then the list is old.
export CATALOGUE_LACKS='landlock.scope;binfmt_misc of a user namespace (Linux 6.7)'

seconds() { cut -d. -f1 /proc/uptime; }

one() {
	began=$(seconds)
	case $3 in
	-) which=-test.run=. ;;
	!*) which=-test.skip=${3#!} ;;
	*) which=-test.run=$3 ;;
	esac
	cd "/tests/$1" || return 1
	verdict=ok
	if ! ./the.test -test.v -test.timeout="$2s" "$which" >/tmp/log 2>&1; then # once more, as test/packages.sh has it
		cat /tmp/log
		verdict='flaky, passed when run again:'
		./the.test -test.v -test.timeout="$2s" "$which" >/tmp/log 2>&1 || verdict=FAIL
	fi
	printf '%s\t%s (vm, %d s): %d held, %d skipped\n' "$verdict" "$1" $(($(seconds) - began)) \
		"$(grep -c '^--- PASS' /tmp/log)" "$(grep -c '^--- SKIP' /tmp/log)"
	if [ "$verdict" = FAIL ]; then
		cat /tmp/log
		return 1
	fi
	test ! -e /tests/verbose || cat /tmp/log
	grep '^catalogue, ' /tmp/log | sed 's/^/\t/' # its own account
	# A reason stands above the line that says SKIP.
	grep -B1 '^ *--- SKIP' /tmp/log | sed -n 's/^ *[a-z_]*\.go:[0-9]*: \(.*\)/\tskipped: \1/p' | sort -u
}

echo "Linux $(uname -r), cgroup version 2 with $(cat /sys/fs/cgroup/cgroup.controllers)"
failed=0
while read -r package bound out <&3; do
	one "$package" "$bound" "$out" || failed=1
done 3</tests/list
exit $failed
