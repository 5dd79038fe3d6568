#!/usr/bin/env bash
# What people import most, as they use it, under the default profile and limits: numpy, pandas, polars, pyarrow, matplotlib, requests. The pinned versions
# are installed once, in an environment under the user's cache directory that sandboxes are shown.
#
#   imports.sh BIN     BIN has sandboxd and sandboxd-runner
set -euo pipefail

bin=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)/imports

# A sandbox sees the system's directories, so that an interpreter elsewhere won't do.
python=/usr/bin/python3
status=0
venv=$("$here/../venv.sh" imports "$python" "$here/requirements.txt") || status=$?
if [ "$status" -eq 3 ]; then
	echo "imports: left out"
	exit 0
fi
test "$status" -eq 0

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
failed=0
# try NAME FILES [FLAGS]: FILES is what it must leave in outputs/.
try() {
	local name=$1 files=$2
	shift 2
	rm -rf "$dir/outputs"
	mkdir "$dir/outputs"
	if "$bin/sandboxd" run --json --state "$dir/state" --show "$venv" --env "PATH=$venv/bin:/usr/bin:/bin" --outputs "$dir/outputs" "$@" "$here/$name.py" >"$dir/reply" &&
		"$python" -c '
import json, sys
reply = json.load(open(sys.argv[1]))
assert reply["outcome"] == "ok" and reply["verdict"]["held"] and reply["returnValue"], reply
print("imports: %-10s %s, %.1f s, %d MiB" % (sys.argv[2], reply["returnValue"], reply["durationSeconds"], reply["usage"]["maxRSSBytes"] >> 20))
' "$dir/reply" "$name" && [ "$(cd "$dir/outputs" && find . -type f -size +500c | LC_ALL=C sort | tr '\n' ' ')" = "$files" ]; then
		return
	fi
	failed=1
	echo "imports: $name $* failed" >&2
	ls -l "$dir/outputs" >&2
	cat "$dir/reply" >&2
}
# And with a bound on memory, which where the kernel has no controller is counted, and a limit on the data of each process (RLIMIT_DATA).
mkdir "$dir/policy"
(cd "$here/../../rego" && tar -cf - --exclude=embed.go .) | tar -xf - -C "$dir/policy"
lacks=$("$bin/sandboxd" doctor --json | "$python" -c '
import json, sys
mechanisms = {m["name"]: m["have"] for m in json.load(sys.stdin)["mechanisms"]}
print(json.dumps([name for name in ("cgroup.cpu", "cgroup.memory") if not mechanisms[name]]))')
sed -i "s/\"accept\": \[\]/\"accept\": $lacks/" "$dir/policy/data.json"

try numpy ""
try tables "./frame.parquet "
try tables "./frame.parquet " --policy "$dir/policy" --limits '{"memoryBytes": 1073741824}'
try matplotlib "./plot.pdf ./plot.png ./plot.svg "
try requests ""
exit "$failed"
