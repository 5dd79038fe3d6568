#!/usr/bin/env bash
# The chart against a real API server: every file of values is taken by it, server-side, at the Pod Security level that it names and not at the level below;
# pods that ask for sandboxd get it, and those that claim it without having it are refused, with the reason.
#
#   kube.sh BIN TESTBED     BIN has sandboxd and sandboxd-runner; TESTBED has kube-apiserver-up.sh, which builds what it starts into the user's cache (some twenty minutes when that is cold)
set -euo pipefail

sandboxd=$(realpath "${1:?BIN}")/sandboxd
testbed=${2:?TESTBED}
chart=$(cd "$(dirname "$0")/../deploy/helm/sandboxd" && pwd)
bin=${SANDBOXD_TESTBED_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/sandboxd-testbed}/bin

"$testbed/kube-build.sh" up helm
work=$(mktemp -d)
trap '"$testbed/kube-apiserver-up.sh" down; rm -rf "$work"' EXIT
"$testbed/kube-apiserver-up.sh" up
eval "$("$testbed/kube-apiserver-up.sh" env)"

failed=0
fail() {
	echo "FAIL	$*"
	failed=1
}
helm() { "$bin/helm" "$@" 2> >(grep -v 'found symbolic link in path' >&2); }
namespace() { # NAME LABEL...
	kubectl create namespace "$1" --dry-run=client -o yaml | kubectl apply --server-side -f - >/dev/null
	kubectl label --overwrite namespace "$@" >/dev/null
}

namespace at-restricted pod-security.kubernetes.io/enforce=restricted
namespace at-baseline pod-security.kubernetes.io/enforce=baseline
namespace at-privileged pod-security.kubernetes.io/enforce=privileged

# The pod of a workload, as its controller would make it: there is none here, and only pods have a level.
pod_of() { # RENDERED NAMESPACE
	kubectl apply --server-side --dry-run=server -n "$2" -f "$1" -o json | python3 -c '
import json, sys
answer = json.load(sys.stdin)
for item in answer.get("items", [answer]):
    if item["kind"] in ("Deployment", "Job"):
        pod = item["spec"]["template"]
        pod["metadata"] = {"name": "its-pod", "labels": pod["metadata"]["labels"], "annotations": pod["metadata"].get("annotations", {})}
        print(json.dumps({"apiVersion": "v1", "kind": "Pod", **pod}))
'
}
for values in "$chart"/values/*.yaml; do
	level=$(sed -n '1s/^# Pod Security: //p' "$values")
	helm template release "$chart" --values "$values" >"$work/rendered.yaml"
	if ! kubectl apply --server-side --dry-run=server -n "at-$level" -f "$work/rendered.yaml" >/dev/null 2>"$work/said"; then
		fail "$(basename "$values"): $(cat "$work/said")"
		continue
	fi
	pod_of "$work/rendered.yaml" "at-$level" >"$work/pod.json" 2>/dev/null
	test -s "$work/pod.json" || { echo "ok  	$(basename "$values")"; continue; }
	kubectl apply --server-side --dry-run=server -n "at-$level" -f "$work/pod.json" >/dev/null || fail "$(basename "$values"): its pod at $level"
	if [ "$level" = privileged ]; then
		if kubectl apply --server-side --dry-run=server -n at-baseline -f "$work/pod.json" >/dev/null 2>"$work/said"; then
			fail "$(basename "$values"): its pod passes baseline"
		fi
		grep -o 'violates PodSecurity.*' "$work/said" || fail "$(basename "$values"): refused without naming the fields"
	fi
	echo "ok  	$(basename "$values") at $level"
done

# Injection.
helm template release "$chart" --values "$chart/values/injection.yaml" >"$work/injection.yaml"
kubectl apply --server-side -f "$work/injection.yaml" >/dev/null
namespace injected sandboxd.io/inject=enabled pod-security.kubernetes.io/enforce=restricted
namespace bystander pod-security.kubernetes.io/enforce=baseline
asking='metadata: {name: it, annotations: {sandboxd.io/inject: "true"}}'
locked='allowPrivilegeEscalation: false, runAsNonRoot: true, capabilities: {drop: [ALL]}, seccompProfile: {type: RuntimeDefault}'

# A binding takes effect some moments after it was made.
pod() { printf 'apiVersion: v1\nkind: Pod\n%s\nspec:\n%s\n' "$1" "$2"; }
plain=$(pod "$asking" "  containers: [{name: runner, image: i}]")
for _ in $(seq 100); do
	kubectl apply --server-side --dry-run=server -n injected -f - <<<"$plain" -o json 2>/dev/null | grep -q '"sandboxd-install"' && break
	sleep 0.1
done

takes() { # NAME NAMESPACE POD
	kubectl apply --server-side --dry-run=server -n "$2" -f - <<<"$3" -o json >"$work/answer.json" 2>"$work/said" || { fail "$1: $(cat "$work/said")"; return 1; }
	echo "ok  	$1"
}
refuses() { # NAME NAMESPACE POD MESSAGE
	if kubectl apply --server-side --dry-run=server -n "$2" -f - <<<"$3" >/dev/null 2>"$work/said"; then
		fail "$1: it was taken"
	elif ! grep -qF -- "$4" "$work/said"; then
		fail "$1: refused otherwise: $(cat "$work/said")"
	else
		echo "ok  	$1: $4"
	fi
}

takes 'a pod that asks gets sandboxd' injected "$plain"
python3 - "$work/answer.json" <<'PYTHON' || fail 'what is injected'
import json, sys
spec = json.load(open(sys.argv[1]))["spec"]
assert [c["name"] for c in spec["initContainers"]] == ["sandboxd-install", "sandboxd"], spec["initContainers"]
assert spec["initContainers"][1]["restartPolicy"] == "Always" and spec["initContainers"][1]["startupProbe"]["exec"]["command"][:2] == ["/sandboxd", "healthz"]
runner = spec["containers"][0]
assert runner["command"][1] == "connect" and not runner.get("args") and runner["securityContext"]["runAsUser"] == 65533
assert spec["shareProcessNamespace"] is True and spec["automountServiceAccountToken"] is False
PYTHON
takes 'what the pod has stays' injected "$(pod "$asking" "
  initContainers: [{name: first, image: i, securityContext: {runAsUser: 1000, $locked}}]
  volumes: [{name: own, emptyDir: {}}]
  containers:
  - {name: app, image: i, volumeMounts: [{name: sandboxd-api, mountPath: /s, readOnly: true}], securityContext: {runAsUser: 1000, $locked}}
  - {name: runner, image: i, command: [sleep], args: [infinity], volumeMounts: [{name: own, mountPath: /own}]}")"
python3 - "$work/answer.json" <<'PYTHON' || fail 'what the pod had'
import json, sys
spec = json.load(open(sys.argv[1]))["spec"]
assert [c["name"] for c in spec["initContainers"]] == ["sandboxd-install", "sandboxd", "first"]
assert [v["name"] for v in spec["volumes"]][0] == "own" and len(spec["volumes"]) == 7
assert [m["name"] for m in spec["containers"][1]["volumeMounts"]][0] == "own"
assert spec["containers"][1]["command"][1] == "connect" and not spec["containers"][1].get("args")
PYTHON
takes 'a pod that does not ask is left alone' injected "$(pod 'metadata: {name: it}' "
  containers: [{name: runner, image: i, securityContext: {runAsUser: 1000, $locked}}]")"
if grep -q sandboxd-install "$work/answer.json"; then fail 'a pod that does not ask was changed'; fi
refuses 'asking where nothing is injected' bystander "$plain" 'the init container "sandboxd" isn'"'"'t the one that is injected'
refuses 'asking without a runner' injected "$(pod "$asking" "  containers: [{name: other, image: i, securityContext: {runAsUser: 1000, $locked}}]")" 'needs a container named "runner"'
refuses 'another with the uid of code' injected "$(pod "$asking" "
  containers: [{name: runner, image: i}, {name: app, image: i, securityContext: {runAsUser: 65533, $locked}}]")" 'every other container needs a runAsUser of its own'
refuses 'another with the uid of sandboxd' injected "$(pod "$asking" "
  containers: [{name: runner, image: i}, {name: app, image: i, securityContext: {runAsUser: 65532, $locked}}]")" 'every other container needs a runAsUser of its own'
refuses 'another of whatever uid' injected "$(pod "$asking" "
  containers: [{name: runner, image: i}, {name: app, image: i, securityContext: {$locked}}]")" 'every other container needs a runAsUser of its own'
refuses 'another that writes to our sockets' injected "$(pod "$asking" "
  containers: [{name: runner, image: i}, {name: app, image: i, volumeMounts: [{name: sandboxd-api, mountPath: /s}], securityContext: {runAsUser: 1000, $locked}}]")" 'read-only, and nothing else of sandboxd'
refuses 'another that reads the audit log' injected "$(pod "$asking" "
  containers: [{name: runner, image: i}, {name: app, image: i, volumeMounts: [{name: sandboxd-state, mountPath: /s, readOnly: true}], securityContext: {runAsUser: 1000, $locked}}]")" 'read-only, and nothing else of sandboxd'
# By hand, without injection: the same pod but for one thing.
injected=$(kubectl apply --server-side --dry-run=server -n injected -f - <<<"$plain" -o json | python3 -c '
import json, sys
pod = json.load(sys.stdin)
print(json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "it", "annotations": pod["metadata"]["annotations"]}, "spec": pod["spec"]}))')
changed() { python3 -c 'import json, sys; pod = json.loads(sys.stdin.read()); exec(sys.argv[1], {"pod": pod, "spec": pod["spec"], "runner": pod["spec"]["containers"][0], "sandboxd": pod["spec"]["initContainers"][1]}); print(json.dumps(pod))' "$1" <<<"$injected"; }
takes 'the same by hand' bystander "$injected"
refuses 'a sidecar of another image' bystander "$(changed 'sandboxd["image"] = "other"')" 'isn'"'"'t the one that is injected'
refuses 'a sidecar with other arguments' bystander "$(changed 'sandboxd["args"].append("--runner-uid=1")')" 'isn'"'"'t the one that is injected'
refuses 'a sidecar with another command' bystander "$(changed 'sandboxd["command"] = ["/bin/sh"]')" 'isn'"'"'t the one that is injected'
refuses 'a launcher from elsewhere' bystander "$(changed 'spec["initContainers"][0]["image"] = "other"')" 'which brings the launcher'
refuses 'a launcher by another command' bystander "$(changed 'spec["initContainers"][0]["command"] = ["/bin/cp"]')" 'which brings the launcher'
refuses 'no launcher at all' bystander "$(changed 'spec["initContainers"].pop(0)')" 'which brings the launcher'
refuses 'a launcher of a volume of somebody'"'"'s' bystander "$(changed '[v for v in spec["volumes"] if v["name"] == "sandboxd-launcher"][0].pop("emptyDir"); [v for v in spec["volumes"] if v["name"] == "sandboxd-launcher"][0]["persistentVolumeClaim"] = {"claimName": "c"}')" 'must be the pod'"'"'s own'
refuses 'a sidecar that ends' bystander "$(changed 'del sandboxd["restartPolicy"]; del sandboxd["startupProbe"]; del sandboxd["readinessProbe"]; del sandboxd["lifecycle"]')" 'isn'"'"'t the one that is injected'
refuses 'a runner with another first process' bystander "$(changed 'runner["command"] = ["sleep"]')" 'the first process of "runner"'
refuses 'a runner of another uid' bystander "$(changed 'runner["securityContext"]["runAsUser"] = 1000')" '"runner" must have the uid'
refuses 'a runner that may gain privilege' bystander "$(changed 'runner["securityContext"]["allowPrivilegeEscalation"] = True')" '"runner" must have the uid'
refuses 'a runner with a capability' bystander "$(changed 'runner["securityContext"]["capabilities"]["add"] = ["KILL"]')" '"runner" must have the uid'
refuses 'a runner that writes to the launcher' bystander "$(changed 'runner["volumeMounts"][0]["readOnly"] = False')" '"runner" may mount'
refuses 'a runner with the audit log' bystander "$(changed 'runner["volumeMounts"].append({"name": "sandboxd-state", "mountPath": "/s"})')" '"runner" may mount'
refuses 'the network of the node' at-privileged "$(changed 'spec["hostNetwork"] = True')" 'none of the node'
refuses 'processes apart' bystander "$(changed 'spec["shareProcessNamespace"] = False')" 'share one PID namespace'

# Events: a daemon that the Role's token is given to, whose denials are Events about a pod; and all else that the token may not.
namespace events pod-security.kubernetes.io/enforce=baseline
values=$chart/values/restricted-with-events.yaml
helm template it "$chart" --namespace events --values "$values" | kubectl apply --server-side -n events -f - >/dev/null
kubectl apply -n events -f - >/dev/null <<<'{"apiVersion":"v1","kind":"Pod","metadata":{"name":"it"},"spec":{"containers":[{"name":"runner","image":"i"}]}}'
uid=$(kubectl get pod -n events it -o 'jsonpath={.metadata.uid}')
mkdir "$work/credentials" "$work/state"
cat "$(dirname "$KUBECONFIG")/certs/apiserver.crt" >"$work/credentials/ca.crt"
printf events >"$work/credentials/namespace"
kubectl create token -n events it-sandboxd --duration 10m >"$work/credentials/token"
server=$(kubectl config view --minify -o 'jsonpath={.clusters[0].cluster.server}')
"$sandboxd" serve --socket "$work/run/sandboxd.sock" --state "$work/state" --claim-file "$work/ids" --first-uid 700000 --uids 64 --pool 0 \
	--events-pod it --events-pod-uid "$uid" --events-credentials "$work/credentials" --events-server "$server" >"$work/daemon.log" 2>&1 &
daemon=$!
trap 'kill "$daemon" 2>/dev/null || true; wait "$daemon" 2>/dev/null || true; "$testbed/kube-apiserver-up.sh" down; rm -rf "$work"' EXIT
until "$sandboxd" healthz --socket "$work/run/sandboxd.sock" >/dev/null 2>&1; do
	kill -0 "$daemon" || { cat "$work/daemon.log"; exit 1; }
	sleep 0.05
done
for _ in $(seq 50); do
	"$sandboxd" exec --socket "$work/run/sandboxd.sock" --stdin none --security-context '{"privileged":true}' -- true >/dev/null 2>&1 && fail 'a privileged exec ran'
done
"$sandboxd" exec --socket "$work/run/sandboxd.sock" --stdin none -- true
events() { kubectl get events.events.k8s.io -n events -o "jsonpath={range .items[*]}{.reason} {.regarding.kind}/{.regarding.name} {.regarding.uid} {.note}{'\n'}{end}"; }
for _ in $(seq 100); do
	events | grep -q SandboxDenied && break
	sleep 0.1
done
if events | grep -q "^SandboxDenied Pod/it $uid denied: .*privileged.*(audit record "; then
	echo "ok  	a denied exec is an Event about the pod: $(events | head -n 1)"
else
	fail "a denied exec is no Event: $(events) $(cat "$work/daemon.log")"
fi
kubectl get events -n events | grep -q 'SandboxDenied .*pod/it' || fail 'kubectl get events does not show it'
kill "$daemon" && wait "$daemon"
count=$(events | wc -l)
if [ "$count" = 1 ]; then echo 'ok  	fifty denials are one Event'; else fail "$count Events for fifty denials"; fi
token=$(cat "$work/credentials/token")
may() { # VERDICT VERB RESOURCE NAMESPACE
	local got
	got=$(kubectl --token "$token" auth can-i "$2" "$3" -n "$4" 2>/dev/null || true)
	if [ "$got" = "$1" ]; then echo "ok  	the token: $2 $3 in $4: $1"; else fail "the token: $2 $3 in $4: $got"; fi
}
# The admin's own credentials must not answer for the token.
kubectl() { "$bin/kubectl" --kubeconfig "$work/kubeconfig" "$@"; }
sed '/^users:/,/^contexts:/{/^- name: admin/,/user:/d}; s/user: admin/user: nobody/' "$KUBECONFIG" >"$work/kubeconfig"
may yes create events.events.k8s.io events
may yes patch events.events.k8s.io events
for denied in 'get events.events.k8s.io' 'list events.events.k8s.io' 'delete events.events.k8s.io' 'create events' 'get pods' 'create pods' 'create pods/exec' 'get secrets' 'list configmaps' \
	'create serviceaccounts/token' 'create rolebindings.rbac.authorization.k8s.io'; do
	# shellcheck disable=SC2086
	may no $denied events
done
may no create events.events.k8s.io default
for path in /api/v1/namespaces/events/secrets /api/v1/namespaces/events/pods /apis/events.k8s.io/v1/namespaces/events/events /api/v1/nodes; do
	if kubectl --token "$token" get --raw "$path" >/dev/null 2>"$work/said"; then
		fail "the token: GET $path"
	elif grep -qi forbidden "$work/said"; then
		echo "ok  	the token: GET $path is forbidden"
	else
		fail "the token: GET $path: $(cat "$work/said")"
	fi
done

# agent-sandbox's template, by its own definitions and admission sample.
"$(dirname "$0")/kube-agentsandbox.sh" "$bin" || failed=1

exit "$failed"
