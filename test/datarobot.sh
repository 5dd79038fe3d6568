#!/usr/bin/env bash
# DataRobot's own sandbox client, unmodified, against the workload façade of a real daemon: the suite of datarobot in the conformance material.
#
#   datarobot.sh BIN CONFORMANCE     BIN has sandboxd and sandboxd-runner; without CONFORMANCE there is nothing to run
#
# The interpreter that has the client is the one that tools.sh has installed.
set -euo pipefail

bin=$(cd "$1" && pwd)
suite=${2:+$2/datarobot}
if [ -z "$suite" ]; then
	echo "datarobot: no conformance material beside the repository, and SANDBOXD_CONFORMANCE names none; left out"
	exit 0
fi
export SANDBOXD_CONFORMANCE=$2
python=$("$(dirname "$0")/clients.sh")/bin/python

dir=$(mktemp -d)
daemon=
end() {
	if [ -n "$daemon" ]; then
		kill -INT "$daemon" 2>/dev/null || true
		wait "$daemon" || true
	fi
	rm -rf "$dir"
}
trap end EXIT

# The built-in policy, and where this machine has no controllers for groups of ours: counted memory and shared processor time will do.
mkdir "$dir/policy"
(cd rego && tar -cf - --exclude=embed.go .) | tar -xf - -C "$dir/policy"
lacks=$("$bin/sandboxd" doctor --json | "$python" -c '
import json, sys
mechanisms = {m["name"]: m["have"] for m in json.load(sys.stdin)["mechanisms"]}
print(json.dumps([name for name in ("cgroup.cpu", "cgroup.memory") if not mechanisms[name]]))')
sed -i "s/\"accept\": \[\]/\"accept\": $lacks/" "$dir/policy/data.json"
grep -q "\"accept\": \\$lacks" "$dir/policy/data.json"

(umask 077; head -c 32 /dev/urandom | base64 >"$dir/token")
image=datarobotdev/datarobot-user-models:public_dropin_environments_dr_mcp_execute_sandbox_minimal_latest
"$bin/sandboxd" serve --socket "$dir/run/sandboxd.sock" --state "$dir/state" --policy "$dir/policy" \
	--datarobot-listen 127.0.0.1:0 --datarobot-token-file "$dir/token" --datarobot-image "$image" 2>"$dir/log" &
daemon=$!
for _ in $(seq 300); do
	address=$(sed -n 's/.*address=\([0-9.:]*\) protocol="DataRobot workloads".*/\1/p' "$dir/log")
	test -z "$address" || break
	kill -0 "$daemon" || break
	sleep 0.1 # polls for what the line after this needs
done
if [ -z "$address" ]; then
	cat "$dir/log" >&2
	exit 1
fi

echo "datarobot: accepted as missing here: $lacks"
status=0
SANDBOXD_DATAROBOT_URL="http://$address" SANDBOXD_DATAROBOT_TOKEN=$(cat "$dir/token") SANDBOXD_DATAROBOT_IMAGE=$image \
	PYTHONDONTWRITEBYTECODE=1 "$python" -m pytest -q -p no:cacheprovider -W ignore "$suite/test_workload_client.py" "${@:3}" | tee "$dir/said" || status=$?
if grep -q ' skipped' "$dir/said"; then
	echo "datarobot: nothing may be skipped" >&2
	status=1
fi
if grep -qF "$(cat "$dir/token")" "$dir/log" || grep -rqF "$(cat "$dir/token")" "$dir/state"; then
	echo "datarobot: the token is in the daemon's log or state" >&2
	status=1
fi
if [ "$status" -ne 0 ]; then
	grep -v level=INFO "$dir/log" >&2 || true
fi
exit "$status"
