#!/usr/bin/env bash
# The chart in a real pod, by a real API server, kubelet and containerd, in each tier: the runner starts after sandboxd, what it runs is proven, what policy
# denies is not run, nothing gets out, the catalogue of attacks holds, and nothing runs on when sandboxd is killed.
#
#   pod.sh BIN TESTBED     BIN has sandboxd, sandboxd-runner, probe and catalogue.test; TESTBED has pod-up.sh, which builds and installs what it starts
set -euo pipefail
export GOTOOLCHAIN=auto

bin=$(realpath "$1")
here=$(cd "$(dirname "$0")" && pwd)
testbed=$2
chart=$(cd "$(dirname "$0")/../deploy/helm/sandboxd" && pwd)
cache=${SANDBOXD_TESTBED_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/sandboxd-testbed}

"$testbed/kube-build.sh" up helm kubelet containerd runc etcd kube-apiserver kubectl 2> >(grep -v 'is there$' >&2)
# Root of a pod's user namespace is nobody on the node, and must be able to come to its files: a home directory is closed to it.
tools=$(mktemp -d /var/tmp/sandboxd-pod.XXXXXX)
chmod 755 "$tools"
cp -al "$cache/bin" "$tools/bin" 2>/dev/null || cp -a "$cache/bin" "$tools/bin"
export SANDBOXD_TESTBED_DIR=$tools TESTBED_RUNTIME=module KUBECONFIG=$tools/apiserver/kubeconfig PATH=$tools/bin:$PATH

work=$(mktemp -d)
cleanup() {
	"$testbed/pod-up.sh" down >/dev/null 2>&1 || true
	"$testbed/kube-apiserver-up.sh" down >/dev/null 2>&1 || true
	rm -rf "$work" "$tools"
}
trap cleanup EXIT
"$testbed/pod-up.sh" up api

image() { # NAME ROOT ENTRYPOINT: imports an image of the files below ROOT
	local archive=$work/archive-$1 layer
	mkdir -p "$archive"
	tar --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 --xattrs --xattrs-include=security.capability -C "$2" -cf "$archive/layer.tar" .
	layer=$(sha256sum "$archive/layer.tar" | cut -d' ' -f1)
	printf '{"architecture":"%s","os":"linux","config":{"Entrypoint":["%s"],"User":"65532:65532"},"rootfs":{"type":"layers","diff_ids":["sha256:%s"]},"history":[{"created_by":"test"}]}' \
		"$(go env GOARCH)" "$3" "$layer" >"$archive/config.json"
	printf '[{"Config":"config.json","RepoTags":["testbed.local/%s:1"],"Layers":["layer.tar"]}]' "$1" >"$archive/manifest.json"
	tar -C "$archive" -cf "$archive.tar" .
	ctr --address "$tools/node/containerd.sock" --namespace k8s.io images import "$archive.tar" >/dev/null
	rm -rf "$archive" "$archive.tar"
}
# That of deploy/image/Dockerfile: two programs and an empty /tmp.
mkdir -p "$work/root/tmp"
cp "$bin/sandboxd" "$bin/sandboxd-runner" "$work/root/"
chmod 1777 "$work/root/tmp"
image sandboxd "$work/root" /sandboxd
# The runner's: a shell's programs, and what the catalogue attacks with.
runner=$work/runner
mkdir -p "$runner"/{bin,etc,proc,sys,dev,tmp,work,root,usr/bin,usr/share/catalogue,opt/shown,opt/kept}
chmod 1777 "$runner/tmp" "$runner/work"
cp /bin/busybox "$runner/bin/busybox"
for applet in $(/bin/busybox --list); do
	[ "$applet" = busybox ] || ln -s busybox "$runner/bin/$applet"
done
printf 'root:x:0:0:root:/root:/bin/sh\n' >"$runner/etc/passwd"
printf 'root:x:0:\n' >"$runner/etc/group"
ln "$runner/bin/busybox" "$runner/usr/bin/env"
cp "$bin/probe" "$runner/bin/probe"
SANDBOXD_BIN=$bin CATALOGUE_MAKE=$runner/usr/share/catalogue CATALOGUE_SHOWN=/usr/share/catalogue "$bin/catalogue.test"
image runner "$runner" /bin/sh
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
program=/sandboxd
sidecar() { kube exec it -c sandboxd -- "$program" "$@"; }
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
sys.exit(not at["sandboxd"] <= at.get("runner", at["app"]))'; }

cat >"$work/values.yaml" <<'VALUES'
image: {repository: testbed.local/sandboxd, tag: "1", pullPolicy: Never}
runner: {image: "testbed.local/runner:1", pullPolicy: Never}
app: {image: "testbed.local/agent:1", pullPolicy: Never, command: [sleep, infinity]}
# What this node lacks: claims.
audit: {existingClaim: ""}
policy: {settings: {network: {targets: [{target: "10.0.0.0/8", ports: [8080]}]}}}
VALUES
pod() { # VALUES: the chart's pod, without a controller or a scheduler
	kubectl create namespace sandboxd-test --dry-run=client -o yaml | kubectl apply -f - >/dev/null
	kube delete pod it --grace-period=2 --ignore-not-found >/dev/null
	local more=()
	program=/sandboxd
	if grep -q '^tier: full$' "$1"; then
		program=/run/sandboxd/bin/sandboxd
		more=(--set 'runner.show={/opt/shown}')
	fi
	helm template it "$chart" --values "$1" --values "$work/values.yaml" "${more[@]}" 2> >(grep -v 'found symbolic link' >&2) >"$work/rendered.yaml"
	kube apply --server-side --force-conflicts -f "$work/rendered.yaml" >/dev/null
	kube get deployment it-sandboxd -o json | python3 -c '
import json, sys
template = json.load(sys.stdin)["spec"]["template"]
spec = dict(template["spec"], nodeName="'"${TESTBED_NODE_NAME:-localhost}"'")
print(json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "it", "labels": template["metadata"]["labels"]}, "spec": spec}))' | kube apply -f - >/dev/null
}

# What holds in every tier; in the tier full each execution has a sandbox of its own.
holds() { # VALUES TIER ERRNO: the errno of a connection that policy doesn't allow
	echo "--  	$1"
	pod "$chart/values/$1.yaml"
	check 'the pod is ready' within 60 ready
	check 'what is beside sandboxd started after it' started
	check 'a proof, from the sidecar' says "held: tier $2" sidecar exec --socket "$socket" --explain -- /bin/true
	check 'a proof, from the app' says "held: tier $2" app exec --socket "$socket" --explain -- /bin/true
	check 'a denial, with what would pass' says 'passes' app exec --socket "$socket" --explain --security-context '{"privileged":true}' -- /bin/id
	check 'no connection' says "$3" app exec --socket "$socket" -- /bin/probe connect 192.0.2.1:80
	check 'a read-only root' says 'Read-only file system' app exec --socket "$socket" -- /bin/touch /etc/x
	check 'a directory that may be written' says 'written' app exec --socket "$socket" -- /bin/sh -c 'echo written >/work/x && cat /work/x'
	check 'none of sandboxd'"'"'s files' says 'No such file' app exec --socket "$socket" -- /bin/ls /var/lib/sandboxd
	check 'no signal for others' says 'not permitted' app exec --socket "$socket" -- /bin/sh -c 'kill -KILL 1'
	check 'everything read back now, and tried' sidecar verify --socket "$socket"
}
shared() { check 'its user, and nothing else' says 'uid=65533 gid=65533 groups=65533' app exec --socket "$socket" -- /bin/id; }
row() { # CONTROL EVIDENCE: a verdict has it
	app exec --socket "$socket" --explain -- /bin/true 2>&1 | grep -E "^$1 .* yes +$2\$"
}
# The node serves on the pods' bridge. A sandbox comes there if its request says so and policy allows that, and to no other port of it.
outlet() {
	local node server status=1
	node=$(ip -4 -o addr show "${TESTBED_BRIDGE:-sbxtb0}" | grep -o 'inet [0-9.]*' | cut -d' ' -f2)
	python3 - "$node" <<-'SERVER' &
		import socketserver, sys, threading
		class World(socketserver.BaseRequestHandler):
		    def handle(self):
		        self.request.sendall(b"the-world\n")
		socketserver.TCPServer.allow_reuse_address = True
		for port in (8080, 8081):
		    threading.Thread(target=socketserver.ThreadingTCPServer((sys.argv[1], port), World).serve_forever).start()
	SERVER
	server=$!
	asks() { app exec --socket "$socket" "${@:2}" -- /bin/sh -c "(sleep 1) | nc $1"; } # "ADDRESS PORT" FLAG...
	within 20 says the-world kube exec it -c app -- /bin/sh -c "(sleep 1) | nc $node 8081" &&
		within 20 says the-world asks "$node 8080" --network-allow "$node/32:8080" &&
		! says the-world asks "$node 8081" --network-allow "$node/32:8080" >/dev/null &&
		! says the-world asks "$node 8080" >/dev/null &&
		says passes app exec --socket "$socket" --explain --network-allow "$node/32:8081" -- /bin/true &&
		status=0
	kill "$server"
	return "$status"
}
own() {
	check 'what a request and policy let out, and nothing else' outlet
	check 'a user of its own' says '(sandbox)' app exec --socket "$socket" -- /bin/id
	check 'namespaces of its own, read from the kernel' row namespaces.net kernel
	check 'descriptors, read from the kernel' row fd.0 kernel
	check 'nobody else to be seen' says 'alone' app exec --socket "$socket" -- /bin/sh -c 'ps | grep -q "[s]andboxd serve" || echo alone'
	check 'of the image what is shown, and no more' says '|shown|' app exec --socket "$socket" -- /bin/sh -c 'echo "|$(ls /opt)|"'
	check 'nothing of another execution' says 'gone' app exec --socket "$socket" -- /bin/sh -c 'test -e /work/x || echo gone'
}
# The catalogue of attacks, asked through the pod's socket as the app is, with the log that sandboxd writes; the last line counts.
catalogue() {
	local uid dir
	uid=$(kube get pod it -o 'jsonpath={.metadata.uid}')
	dir=$tools/node/kubelet/pods/$uid/volumes/kubernetes.io~empty-dir
	CATALOGUE_SOCKET=$dir/sandboxd-api/socket/sandboxd.sock CATALOGUE_LOG=$dir/sandboxd-state/audit CATALOGUE_SHOWN=/usr/share/catalogue \
		"$bin/catalogue.test" -test.run '^TestInPod$' -test.timeout 5m >"$work/catalogue" 2>&1 || { cat "$work/catalogue"; return 1; }
	grep '^catalogue' "$work/catalogue" >"$work/counted"
}
attacks() {
	check 'the catalogue of attacks' catalogue
	if [ -s "$work/counted" ]; then cat "$work/counted"; fi
	rm -f "$work/counted"
}

# sandboxd dies: what runs dies with it, and comes back proven.
gone() { ! kube exec it -c app -- /bin/ps | grep -q 'sleep 300'; }
dies() { # TIER
	local container
	kube exec it -c app -- /bin/sandboxd exec --socket "$socket" -- /bin/sleep 300 >/dev/null 2>&1 &
	check 'a command runs' within 20 says 'sleep 300' kube exec it -c app -- /bin/ps
	container=$(kube get pod it -o 'jsonpath={.status.initContainerStatuses[1].containerID}')
	ctr --address "$tools/node/containerd.sock" --namespace k8s.io tasks kill -s SIGKILL "${container#containerd://}" 2> >(grep -v DEPRECATION >&2)
	check 'sandboxd is killed, and nothing runs on' within 20 gone
	check 'it is back, and proves anew' within 90 says "held: tier $1" app exec --socket "$socket" --explain -- /bin/true
}

holds net net EAFNOSUPPORT
shared
attacks
holds net-userns net EAFNOSUPPORT
shared
attacks
holds full full EACCES
own
check 'the filter isn'"'"'t to be read from here, and that is said' row seccomp.filter report
attacks
holds full-host full EACCES
own
check 'the filter, byte for byte' row seccomp.filter kernel
attacks
dies full
holds restricted restricted EAFNOSUPPORT
shared
attacks

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
# By the time at which the kubelet put the file there, and the daemon's own word.
prompt() {
	local file
	file=$(stat -c %.3Z "$tools"/node/kubelet/pods/*/volumes/kubernetes.io~configmap/*/..data | sort -n | tail -1)
	sidecar status --socket "$socket" --json | FILE=$file python3 -c '
import datetime, json, os, sys
took = datetime.datetime.fromisoformat(json.load(sys.stdin)["policy"]["loadedAt"]).timestamp() - float(os.environ["FILE"])
print(f"{took:.3f} s")
sys.exit(not -0.1 < took <= 1)'
}
check 'in force within a second of its file' prompt

dies restricted
kube delete pod it --grace-period=10 >/dev/null

# shellcheck source=test/pod-end.sh
. "$here/pod-end.sh"
exit "$failed"
