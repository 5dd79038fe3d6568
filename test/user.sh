#!/usr/bin/env bash
# Runs the tests as an ordinary user: the tier where a user namespace stands in for root.
#
# The tests are built here and run there: that user has no Go, no module cache and perhaps no way into this folder, so that it gets a copy of
# the source tree, for testdata, with the test binaries beside it.
#
#   user.sh BIN [PACKAGE...]     BIN has sandboxd, sandboxd-runner, probe, and in its folder sabotage the build that leaves steps out
set -euo pipefail

bin=$(cd "$1" && pwd)
shift
if [ $# -eq 0 ]; then
	set -- ./enforcer/... ./runner/... ./execd/... ./cmd/... ./clients/go ./test/catalogue ./test/network
fi
packages=$(go list "$@")

if [ "$(id -u)" -ne 0 ]; then
	echo "already an ordinary user: the tests above were this run"
	exit 0
fi

# An id that no account and no range of ours has.
uid=54321
dir=$(mktemp -d)
# Images that give privilege to whoever executes them: only root can make them, and sandboxes of that user are shown them. They have a /tmp of their own.
images=$(mktemp -d /var/tmp/sandboxd-user.XXXXXX)
trap 'rm -rf "$dir" "$images"' EXIT
chmod 0755 "$images"
for image in probe:0755 setuid:4755 setgid:2755 setboth:6755 filecaps:0755; do
	install -m "${image#*:}" "$bin/probe" "$images/${image%:*}"
done
setcap all=eip "$images/filecaps"
printf '#!%s/setuid status\n' "$images" >"$images/script-of-setuid"
printf '#!%s/probe status\n' "$images" >"$images/setuid-script"
chmod 0755 "$images/script-of-setuid"
chmod 4755 "$images/setuid-script"
mkdir "$dir/source" "$dir/tests" "$dir/home" "$dir/tmp"
tar -cf - --exclude=./.git --exclude="./bin" . | tar -xf - -C "$dir/source"
install -D -m 0755 -t "$dir/bin" "$bin/sandboxd" "$bin/sandboxd-runner" "$bin/probe"
install -D -m 0755 -t "$dir/bin/sabotage" "$bin/sabotage/sandboxd" "$bin/sabotage/sandboxd-runner"
chown -R "$uid:$uid" "$dir"
chmod 0755 "$dir"

module=$(go list -m)
failed=0
run() {
	setpriv --reuid "$uid" --regid "$uid" --clear-groups --inh-caps=-all \
		env -i PATH=/usr/local/bin:/usr/bin:/bin HOME="$dir/home" TMPDIR="$dir/tmp" SANDBOXD_BIN="$dir/bin" SANDBOXD_SETUID="$images" \
		SANDBOXD_CONFORMANCE="${SANDBOXD_CONFORMANCE:-}" "$1" -test.timeout 10m >"$dir/log" 2>&1
}
for package in $packages; do
	test -n "$(go list -f '{{join .TestGoFiles ""}}{{join .XTestGoFiles ""}}' "$package")" || continue
	folder=${package#"$module/"}
	binary=$dir/tests/${folder//\//-}.test
	go test -c -o "$binary" "$package"
	chmod 0755 "$binary"
	cd "$dir/source/$folder"
	verdict=ok
	if ! run "$binary"; then # once more, as test/packages.sh has it
		cat "$dir/log"
		echo "again, once: $package"
		verdict='flaky, passed when run again:'
		run "$binary" || verdict=FAIL
	fi
	printf '%s\t%s (ordinary user)\n' "$verdict" "$package"
	if [ "$verdict" = FAIL ]; then
		failed=1
		cat "$dir/log"
	else
		grep '^catalogue, ' "$dir/log" || true
	fi
	cd - >/dev/null
done
exit "$failed"
