#!/usr/bin/env bash
# The demonstration: sandboxd's whole job, five times, as a user would type it. Each part checks its own claims against what really happened,
# and the script ends with status 1 if one doesn't hold.
#
#   run.sh BIN     BIN has sandboxd and sandboxd-runner, BIN/sabotage the same built with -tags sabotage, BIN/probe the probe program
set -euo pipefail

bin=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
failures=0
# A secret that is handed over and must not be in the record.
canary=canary-$RANDOM$RANDOM

# What the sandboxes are shown lies outside /tmp and /work, which every sandbox has of its own.
shown=$(mktemp -d /var/tmp/sandboxd-demo.XXXXXX)
private=$(mktemp -d)
sleep 600 &
bystander=$!
cleanup() {
	kill "$bystander" 2>/dev/null || true
	rm -rf "$shown" "$private"
}
trap cleanup EXIT

if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then
	bold=$'\e[1m' dim=$'\e[2m' red=$'\e[31m' green=$'\e[32m' plain=$'\e[0m'
else
	bold='' dim='' red='' green='' plain=''
fi

part() { printf '\n%s%s%s\n' "$bold" "$1" "$plain"; }
typed() { printf '%s$ %s%s\n' "$dim" "$1" "$plain"; }
hold() { printf '  %sheld%s  %s\n' "$green" "$plain" "$1"; }
fail() {
	printf '  %sFAILED%s  %s\n' "$red" "$plain" "$1"
	failures=$((failures + 1))
}
# claim TEXT COMMAND...: the claim holds when the command succeeds.
claim() {
	local text=$1
	shift
	if "$@" >/dev/null 2>&1; then hold "$text"; else fail "$text"; fi
}
same() { [ "$1" = "$2" ] || { printf '  got %s, want %s\n' "$1" "$2"; return 1; }; }
has() { grep -qF -- "$2" <<<"$1"; }

sandboxd() { "$bin/sandboxd" "$1" --audit "$private/audit" --show "$shown" "${@:2}"; }
# status COMMAND...: runs it and leaves stdout in $out, stderr in $err, the exit status in $status.
status() {
	status=0
	"$@" >"$private/out" 2>"$private/err" || status=$?
	out=$(<"$private/out") err=$(<"$private/err")
}
# field NAME: the value of a plain field of the reply in $out.
field() { [[ $out =~ \"$1\":\"?([^,\"}]*) ]] && printf '%s' "${BASH_REMATCH[1]}"; }

chmod 0755 "$shown"
install -m 0755 "$bin/probe" "$shown/probe"
install -m 0644 "$here/carpenter.txt" "$here/hostile.sh" "$shown"
# An ordinary user has one uid, and a sandbox's files of it are its own.
if [ "$(id -u)" -eq 0 ]; then
	install -m 0600 "$here/carpenter.txt" "$shown/secret"
fi
install -m 0666 "$here/carpenter.txt" "$shown/writable"

printf '%ssandboxd%s: a control that says it is on, is on, and here is the evidence; else nothing runs.\n' "$bold" "$plain"
status "$bin/sandboxd" doctor
head -n 1 <<<"$out"

part '1. A Python program over a real text, with inputs and a returned value'
inputs="{\"path\":\"$shown/carpenter.txt\",\"letters\":5,\"top\":4}"
typed "sandboxd run words.py --inputs '$inputs' --env API_TOKEN=… --explain"
status sandboxd run "$here/words.py" --inputs "$inputs" --env "API_TOKEN=$canary" --explain
sed 's/^/  /' <<<"$out"
# A few of the verdict's rows; --explain prints them all.
grep -E '^(control|identity.uid|capabilities.bounding|no_new_privs|seccomp.filter |landlock.fs|namespaces.net|root|target|.*held: )' <<<"$err" | sed 's/^/  /'
claim 'it ended with status 0' same "$status" 0
claim 'it counted the words that wc counts outside' has "$out" "\"fields\": $(wc -w <"$here/carpenter.txt" | tr -d ' '),"
claim 'the Walrus is in the returned value' has "$out" '"walrus"'
claim 'the verdict was read back and holds' grep -q '^held' <<<"$err"

part '2. A hostile script: what a confined program tries, and what the kernel answers'
typed 'sandboxd exec -- sh hostile.sh'
status sandboxd exec --stdin none -- sh "$shown/hostile.sh" "$shown/probe" "$bystander"
tried=0
while IFS=$'\t' read -r what answer; do
	tried=$((tried + 1))
	errno=$(grep -oE '"(errno|signal)":"[A-Z0-9]+"' <<<"$answer" | cut -d'"' -f4 || true)
	if has "$answer" '"refused":true' && [ -n "$errno" ]; then
		printf '  %-42s %s%s%s\n' "$what" "$green" "$errno" "$plain"
	else
		fail "$what: $answer"
	fi
done <<<"$out"
claim "$tried acts were tried, at least twelve" test "$tried" -ge 12
claim 'the script itself ran to its end' same "$status" 0
claim 'the writable file is as it was' cmp "$shown/writable" "$here/carpenter.txt"
claim 'the bystander on the host is alive' kill -0 "$bystander"
if has "$("$bin/probe" i386)" '"refused":false'; then
	hold 'outside the sandbox the same 32-bit entry works: the refusal was ours'
else
	printf '  %snote%s  this kernel has no 32-bit entry at all\n' "$dim" "$plain"
fi

part '3. A fork bomb and a runaway that left its session: killed on time, nothing left'
leftovers() { pgrep -f "$shown/probe" || true; }
for hostile in 'fork-bomb' 'setsid-runaway'; do
	# The runaway's parent goes on, so that there is something for the wall clock to end.
	script="$shown/probe $hostile; exec $shown/probe spin"
	typed "sandboxd exec --timeout 1s --limits '{\"pids\":64}' --json -- sh -c '$hostile'"
	status sandboxd exec --stdin none --timeout 1s --limits '{"pids":64}' --json -- sh -c "$script"
	printf '  outcome %s, exit status %s, tree empty %s, ran for %s s\n' "$(field outcome)" "$status" "$(field treeEmpty)" "$(field durationSeconds)"
	claim 'the outcome is timeout, and the status 124' test "$(field outcome)/$status" = timeout/124
	claim 'the kernel says that its tree is empty' same "$(field treeEmpty)" true
	claim 'it ran for the second and little more' awk -v d="$(field durationSeconds)" 'BEGIN { exit !(d >= 1 && d < 2) }'
	claim 'no process of it is on the host' same "$(leftovers)" ''
done
typed 'sandboxd exec -- setsid-runaway   # its parent exits at once, it keeps stdout open'
status sandboxd exec --stdin none --json -- "$shown/probe" setsid-runaway
printf '  outcome %s, tree empty %s, ran for %s s\n' "$(field outcome)" "$(field treeEmpty)" "$(field durationSeconds)"
claim 'the answer did not wait for it' test "$(field outcome)/$status" = ok/0
claim 'and it is gone' same "$(field treeEmpty)$(leftovers)" true

part '4. A request for SYS_ADMIN: denied, with the reason and the change that would pass'
context='{"capabilities":{"add":["SYS_ADMIN"]}}'
typed "sandboxd exec --security-context '$context' --explain -- id"
status sandboxd exec --stdin none --security-context "$context" --explain -- id
sed 's/^/  /' <<<"$err"
claim 'the status is 125 and nothing ran' test "$status/$out" = 125/
claim 'the reason names the field' has "$err" securityContext.capabilities.add
claim 'and the change that would pass' has "$err" passes
typed "sandboxd exec --security-context '{\"capabilities\":{\"drop\":[\"ALL\"]}}' -- id"
status sandboxd exec --stdin none --security-context '{"capabilities":{"drop":["ALL"]}}' -- id
printf '  %s\n' "$out"
claim 'without it the same command runs' same "$status" 0

part '5. Sabotage: a build that leaves one step of the confinement out, and says nothing'
for step in rlimit.nofile capset seccomp landlock.restrict_self close_range; do
	typed "SANDBOXD_SABOTAGE=$step sabotage/sandboxd exec -- sh -c 'echo it ran'"
	status env SANDBOXD_SABOTAGE="$step" "$bin/sabotage/sandboxd" exec --audit "$private/audit" --stdin none -- sh -c 'echo it ran'
	sed 's/^/  /' <<<"$err"
	claim "without $step: mismatch, and nothing ran" test "$status/$out" = 125/ -a -n "$(grep -F mismatch <<<"$err")"
done
status env SANDBOXD_SABOTAGE= "$bin/sabotage/sandboxd" exec --audit "$private/audit" --stdin none -- sh -c 'echo it ran'
claim 'the same build with nothing left out runs it' same "$out" 'it ran'

part 'The record'
records=$(cat "$private/audit"/* | wc -l)
printf '  %s records in the audit log\n' "$records"
claim 'every denial, mismatch, release and outcome is in it' test "$records" -gt 20
claim 'and the secret of part 1 is not, though its name is' test -n "$(grep -rF API_TOKEN "$private/audit")" -a -z "$(grep -rF "$canary" "$private/audit")"

if [ "$failures" -gt 0 ]; then
	printf '\n%s%d claims do not hold.%s\n' "$red" "$failures" "$plain"
	exit 1
fi
printf '\n%sEverything claimed here was checked and holds.%s\n' "$green" "$plain"
