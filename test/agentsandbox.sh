#!/usr/bin/env bash
# agent-sandbox's own Python client, unmodified, against the façade of a real daemon: directly, by pod address with gRPC, and through agent-sandbox's own router,
# all in a network namespace that has nothing but its own addresses.
#
#   agentsandbox.sh BIN TESTBED     BIN has sandboxd and sandboxd-runner; TESTBED has kube-build.sh, by which Kubernetes' own code looks at the template's pod
set -euo pipefail

bin=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
testbed=${2:-}
if [ -z "${SANDBOXD_AGENTSANDBOX_INSIDE:-}" ]; then
	if [ "$(id -u)" -ne 0 ]; then
		echo "agentsandbox: only root may make the network namespace; left out"
		exit 0
	fi
	venv=$(VENV_DEPENDENCIES=1 "$here/venv.sh" agentsandbox "" "$here/agentsandbox/requirements.txt")
	if [ ! -e "$venv/router/sandbox_router.py" ]; then
		fetched=$(mktemp -d)
		package=$(grep -o 'k8s-agent-sandbox.*==.*' "$here/agentsandbox/requirements.txt" | sed 's/\[grpc\]//')
		"$venv/bin/pip" download --quiet --disable-pip-version-check --no-deps --no-binary :all: --dest "$fetched" "$package" >&2
		mkdir -p "$venv/router"
		tar -xzf "$fetched"/*.tar.gz -C "$venv/router" --strip-components=2 --wildcards '*/sandbox-router/*.py'
		rm -rf "$fetched"
	fi
	if [ -n "$testbed" ]; then
		"$testbed/kube-build.sh" up podcheck 2>&1 | grep -v 'is there$' || true
		pod=$(mktemp)
		"$venv/bin/python" - "$here/../deploy/agent-sandbox" >"$pod" <<'PYTHON'
import json, pathlib, sys
import yaml

folder = pathlib.Path(sys.argv[1])
template, pool, claim = (yaml.safe_load((folder / name).read_text()) for name in ("base/sandboxtemplate.yaml", "base/warmpool.yaml", "claim.yaml"))
assert pool["spec"]["sandboxTemplateRef"]["name"] == template["metadata"]["name"] and claim["spec"]["warmPoolRef"]["name"] == pool["metadata"]["name"]
spec = template["spec"]["podTemplate"]["spec"]
# The chart's sidecar, with what is agent-sandbox's.
flags = {flag.split("=")[0] for flag in spec["initContainers"][1]["args"] if "=" in flag}
assert {"--agent-sandbox-listen", "--agent-sandbox-peer", "--runner-uid", "--writable"} <= flags, flags
assert spec["containers"][0]["command"][-1] == str(spec["initContainers"][1]["securityContext"]["runAsUser"])
print(json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "it"}, "spec": spec}))
PYTHON
		"${SANDBOXD_TESTBED_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/sandboxd-testbed}/bin/podcheck" -level restricted "$pod"
		rm -f "$pod"
	else
		echo "SKIP agentsandbox: no testbed, so that Kubernetes' own code doesn't look at the template; SANDBOXD_TESTBED names the directory that has kube-build.sh"
	fi
	SANDBOXD_AGENTSANDBOX_INSIDE=$venv exec unshare --net "$0" "$bin"
fi
venv=$SANDBOXD_AGENTSANDBOX_INSIDE
ip=$(command -v ip || echo /usr/sbin/ip)
"$ip" link set lo up
pod=192.0.2.2    # the pod's address, and the router's: it takes no loopback address for a pod's
router=192.0.2.3
"$ip" address add "$pod/32" dev lo
"$ip" address add "$router/32" dev lo

dir=$(mktemp -d)
daemon='' forward=''
end() {
	for process in $forward $daemon; do
		kill -INT "$process" 2>/dev/null || true
		wait "$process" || true
	done
	rm -rf "$dir"
}
trap end EXIT

(umask 077; head -c 32 /dev/urandom | base64 >"$dir/secret")
serve() { # NAME FLAG...
	"$bin/sandboxd" serve --socket "$dir/$1/sandboxd.sock" --state "$dir/$1-state" --claim-file "$dir/$1-ids" --first-uid 790000 --uids 1000 --pool 1 "${@:2}" 2>"$dir/$1.log" &
	daemon="$daemon $!"
	for _ in $(seq 300); do
		[ "$(grep -c 'protocol=agent-sandbox' "$dir/$1.log")" -gt 0 ] && return
		kill -0 "${daemon##* }" || break
		sleep 0.1 # polls for what the line above needs
	done
	cat "$dir/$1.log" >&2
	exit 1
}
# One is asked by address, by peers of it, and one by token.
serve pod --agent-sandbox-listen "$pod:8888" --agent-sandbox-listen "$pod:9090" --agent-sandbox-peer "$router" --agent-sandbox-peer "$pod"
serve token --first-uid 791000 --agent-sandbox-listen "$pod:8889" --agent-sandbox-token-file "$dir/secret"

(cd "$venv/router" && ROUTER_AUTH_TOKEN=$(cat "$dir/secret") exec "$venv/bin/uvicorn" sandbox_router:app --host "$router" --port 8080 --log-level warning) >"$dir/router.log" 2>&1 &
forward=$!
status=0
SUITE_POD=$pod SUITE_ROUTER=http://$router:8080 SUITE_TOKEN=$(cat "$dir/secret") PYTHONDONTWRITEBYTECODE=1 \
	"$venv/bin/python" -W ignore "$here/agentsandbox/suite.py" || status=$?
"$bin/sandboxd" verify --socket "$dir/pod/sandboxd.sock" >/dev/null || { echo "agentsandbox: the daemon doesn't hold any more" >&2; status=1; }
if [ "$status" -ne 0 ]; then
	grep -v 'Proxying request' "$dir/router.log" >&2 || true
	# What the records say of what failed.
	grep -hE '"outcome":"(infra|mismatch|not_started)"|"type":"(drift|mismatch)"|"outcome":"error".*"type":"outcome"' "$dir"/*-state/audit/audit-*.jsonl | cut -c 1-1500 | tail -20 >&2 || true
	grep -hv level=INFO "$dir"/pod.log "$dir"/token.log >&2 || true
fi
exit "$status"
