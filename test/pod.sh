#!/usr/bin/env bash
# The chart in a real pod, by a real API server, kubelet and containerd: the runner starts after sandboxd, what it runs is proven, what policy denies is not run,
# nothing gets out, and nothing runs on when sandboxd is killed.
#
#   pod.sh BIN TESTBED     BIN has sandboxd, sandboxd-runner and probe; TESTBED has pod-up.sh, which builds and installs what it starts
set -euo pipefail
export GOTOOLCHAIN=auto

bin=$(realpath "$1")
testbed=$2
chart=$(cd "$(dirname "$0")/../deploy/helm/sandboxd" && pwd)
tools=${SANDBOXD_TESTBED_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/sandboxd-testbed}
export KUBECONFIG=$tools/apiserver/kubeconfig PATH=$tools/bin:$PATH

work=$(mktemp -d)
cleanup() {
	"$testbed/pod-up.sh" down >/dev/null 2>&1 || true
	"$testbed/kube-apiserver-up.sh" down >/dev/null 2>&1 || true
	rm -rf "$work"
}
trap cleanup EXIT
"$testbed/kube-build.sh" up helm 2>/dev/null
"$testbed/pod-up.sh" up api

# The image of deploy/image/Dockerfile, as an archive: two programs and an empty /tmp.
mkdir -p "$work/root/tmp" "$work/archive"
cp "$bin/sandboxd" "$bin/sandboxd-runner" "$work/root/"
chmod 1777 "$work/root/tmp"
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 -C "$work/root" -cf "$work/archive/layer.tar" .
layer=$(sha256sum "$work/archive/layer.tar" | cut -d' ' -f1)
printf '{"architecture":"%s","os":"linux","config":{"Entrypoint":["/sandboxd"],"User":"65532:65532"},"rootfs":{"type":"layers","diff_ids":["sha256:%s"]},"history":[{"created_by":"test"}]}' \
	"$(go env GOARCH)" "$layer" >"$work/archive/config.json"
printf '[{"Config":"config.json","RepoTags":["testbed.local/sandboxd:1"],"Layers":["layer.tar"]}]' >"$work/archive/manifest.json"
tar -C "$work/archive" -cf "$work/image.tar" .
ctr --address "$tools/node/containerd.sock" --namespace k8s.io images import "$work/image.tar" >/dev/null
"$testbed/pod-up.sh" image runner "$bin/probe"
"$testbed/pod-up.sh" image agent "$bin/sandboxd"

failed=0
check() { # NAME COMMAND...
	local name=$1
	shift
	if "$@" >"$work/said" 2>&1; then
		echo "ok  	$name"
	else
		echo "FAIL	$name"
		cat "$work/said"
		failed=1
	fi
}
within() { # SECONDS COMMAND...
	local limit=$((SECONDS + $1))
	shift
	until "$@" >/dev/null 2>&1; do
		((SECONDS < limit)) || { "$@"; return 1; }
		sleep 0.2
	done
}
kube() { kubectl --namespace sandboxd-test "$@"; }
socket=/run/sandboxd/api/socket/sandboxd.sock
sidecar() { kube exec it -c sandboxd -- /sandboxd "$@"; }
app() { kube exec it -c app -- /bin/sandboxd "$@"; }
says() { # TEXT COMMAND...: the command's output has the text
	local text=$1
	shift
	"$@" >"$work/out" 2>&1 || true
	grep -qF -- "$text" "$work/out" || { cat "$work/out"; return 1; }
}
ready() { [ "$(kube get pod it -o 'jsonpath={.status.conditions[?(@.type=="Ready")].status}')" = True ]; }
started() { kube get pod it -o json | python3 -c '
import json, sys
status = json.load(sys.stdin)["status"]
at = {c["name"]: c["state"]["running"]["startedAt"] for c in status["initContainerStatuses"] + status["containerStatuses"] if "running" in c["state"]}
sys.exit(not at["sandboxd"] <= at["runner"])'; }

cat >"$work/values.yaml" <<'VALUES'
image: {repository: testbed.local/sandboxd, tag: "1", pullPolicy: Never}
runner: {image: "testbed.local/runner:1", pullPolicy: Never}
app: {image: "testbed.local/agent:1", pullPolicy: Never, command: [sleep, infinity]}
# What this node lacks: user namespaces in its runtime, and claims.
hostUsers: null
audit: {existingClaim: ""}
VALUES
pod() { # VALUES: the chart's pod, without a controller or a scheduler
	kubectl create namespace sandboxd-test --dry-run=client -o yaml | kubectl apply -f - >/dev/null
	kube delete pod it --grace-period=2 --ignore-not-found >/dev/null
	helm template it "$chart" --values "$1" --values "$work/values.yaml" 2> >(grep -v 'found symbolic link' >&2) >"$work/rendered.yaml"
	kube apply --server-side --force-conflicts -f "$work/rendered.yaml" >/dev/null
	kube get deployment it-sandboxd -o json | python3 -c '
import json, sys
template = json.load(sys.stdin)["spec"]["template"]
spec = dict(template["spec"], nodeName="'"${TESTBED_NODE_NAME:-localhost}"'")
print(json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "it", "labels": template["metadata"]["labels"]}, "spec": spec}))' | kube apply -f - >/dev/null
}

# What holds in every tier, and how a connection that policy doesn't allow ends there.
holds() { # TIER-OF-VALUES TIER-OF-KERNEL ERRNO
	pod "$chart/values/$1.yaml"
	check "$1: the pod is ready" within 60 ready
	check 'the runner started after sandboxd' started
	check 'a proof, from the sidecar' says "held: tier $2" sidecar exec --socket "$socket" --explain -- /bin/true
	check 'a proof, from the app' says "held: tier $2" app exec --socket "$socket" --explain -- /bin/true
	check 'its user, and nothing else' says 'uid=65533 gid=65533 groups=65533' app exec --socket "$socket" -- /bin/id
	check 'a denial, with what would pass' says 'passes' app exec --socket "$socket" --explain --security-context '{"privileged":true}' -- /bin/id
	check 'no connection' says "$3" app exec --socket "$socket" -- /bin/probe connect 192.0.2.1:80
	check 'a read-only root' says 'Read-only file system' app exec --socket "$socket" -- /bin/touch /etc/x
	check 'a directory that may be written' says 'written' app exec --socket "$socket" -- /bin/sh -c 'echo written >/work/x && cat /work/x'
	check 'none of sandboxd'"'"'s files' says 'No such file' app exec --socket "$socket" -- /bin/ls /var/lib/sandboxd
	check 'no signal for others' says 'not permitted' app exec --socket "$socket" -- /bin/sh -c 'kill -KILL 1'
	check 'everything read back now, and tried' sidecar verify --socket "$socket"
}

holds net net EAFNOSUPPORT
holds full net EAFNOSUPPORT
holds restricted restricted EAFNOSUPPORT

# The kubelet projects a changed ConfigMap on its next sync; the daemon takes it by itself.
revision() { app decide --socket "$socket" --json -- /bin/true | grep -o '"revision":"[^"]*"'; }
before=$(revision)
changed() { [ "$(revision)" != "$before" ]; }
kube get configmap it-sandboxd-policy -o json | python3 -c '
import json, sys
config = json.load(sys.stdin)
data = json.loads(config["data"]["data.json"])
data["settings"]["labels"]["changed"] = "yes"
config["data"]["data.json"] = json.dumps(data)
config["metadata"].pop("managedFields", None)
print(json.dumps(config))' | kube replace -f - >/dev/null
check 'another policy, live' within 150 changed

# sandboxd dies: what runs dies with it, and comes back proven.
kube exec it -c app -- /bin/sandboxd exec --socket "$socket" -- /bin/sleep 300 >/dev/null 2>&1 &
check 'a command runs' within 20 says 'sleep 300' kube exec it -c app -- /bin/ps
container=$(kube get pod it -o 'jsonpath={.status.initContainerStatuses[1].containerID}')
ctr --address "$tools/node/containerd.sock" --namespace k8s.io tasks kill -s SIGKILL "${container#containerd://}"
gone() { ! kube exec it -c app -- /bin/ps | grep -q 'sleep 300'; }
check 'sandboxd is killed, and nothing runs on' within 20 gone
check 'it is back, and proves anew' within 90 says 'held: tier restricted' app exec --socket "$socket" --explain -- /bin/true
kube delete pod it --grace-period=10 >/dev/null
exit "$failed"
