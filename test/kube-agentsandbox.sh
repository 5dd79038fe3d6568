#!/usr/bin/env bash
# deploy/agent-sandbox against a real API server with agent-sandbox's own resource definitions and its hardened admission sample, from its Go module: the template
# is taken strictly, its pods pass Pod Security "restricted", its sandboxes pass the sample, and each thing that the sample is about is refused when it is loosened.
#
#   kube-agentsandbox.sh BIN     BIN has kubectl; KUBECONFIG names the server
set -euo pipefail

PATH=$1:$PATH
examples=$(cd "$(dirname "$0")/../deploy/agent-sandbox" && pwd)
# The newest version of the module that the proxy has. Its API is v1alpha1; what is used of it is the same in v1beta1, but for claims.
module=sigs.k8s.io/agent-sandbox@v0.4.6 api=v1alpha1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
source=$(cd "$work" && go mod download -json "$module" | python3 -c 'import json, sys; print(json.load(sys.stdin)["Dir"])')

failed=0
fail() {
	echo "FAIL	$*"
	failed=1
}
kubectl apply --server-side -f "$source/k8s/crds" >/dev/null
kubectl wait --for condition=established --timeout 60s -f "$source/k8s/crds" >/dev/null
kubectl apply --server-side -f "$source/examples/policy/vap/secure-sandbox-policy.yaml" -f "$source/examples/policy/vap/secure-sandbox-binding.yaml" >/dev/null
printf 'apiVersion: node.k8s.io/v1\nkind: RuntimeClass\nmetadata: {name: gvisor}\nhandler: runsc\n' | kubectl apply --server-side -f - >/dev/null
kubectl create namespace agent-sandbox --dry-run=client -o yaml | kubectl apply --server-side -f - >/dev/null
kubectl label --overwrite namespace agent-sandbox pod-security.kubernetes.io/enforce=restricted >/dev/null

taken() { # FILE: as the server has it then, or why not
	kubectl apply --server-side --dry-run=server --validate=strict -n agent-sandbox -f "$1" -o json >"$work/answer.json" 2>"$work/said"
}
for overlay in base late gvisor; do
	kubectl kustomize "$examples/$overlay" | sed "s#agents.x-k8s.io/v1beta1#agents.x-k8s.io/$api#" >"$work/rendered.yaml"
	if ! taken "$work/rendered.yaml"; then
		fail "agent-sandbox/$overlay: $(cat "$work/said")"
		continue
	fi
	cp "$work/answer.json" "$work/$overlay.json"
	# Its pod, as the controller makes it.
	python3 - "$work/answer.json" "$work/pod.json" <<'PYTHON'
import json, sys
items = json.load(open(sys.argv[1]))["items"]
template = next(item for item in items if item["kind"] == "SandboxTemplate")
pool = next(item for item in items if item["kind"] == "SandboxWarmPool")
assert pool["spec"]["sandboxTemplateRef"]["name"] == template["metadata"]["name"], pool
pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "it"}, "spec": template["spec"]["podTemplate"]["spec"]}
json.dump(pod, open(sys.argv[2], "w"))
PYTHON
	taken "$work/pod.json" && echo "ok  	agent-sandbox/$overlay: its pod at restricted" || fail "agent-sandbox/$overlay: its pod: $(cat "$work/said")"
done
grep -q -- '"--policy-late"' "$work/late.json" || fail 'agent-sandbox/late: nothing of it is late'

# A sandbox of a template, with one thing of it changed.
sandbox() { # OVERLAY CHANGE
	python3 - "$work/$1.json" "$api" "$2" >"$work/sandbox.json" <<'PYTHON'
import json, sys
template = next(item for item in json.load(open(sys.argv[1]))["items"] if item["kind"] == "SandboxTemplate")
spec = template["spec"]["podTemplate"]["spec"]
exec(sys.argv[3], {"spec": spec, "runner": spec["containers"][0], "install": spec["initContainers"][0], "sandboxd": spec["initContainers"][1]})
print(json.dumps({"apiVersion": "agents.x-k8s.io/" + sys.argv[2], "kind": "Sandbox", "metadata": {"name": "it"}, "spec": {"podTemplate": {"metadata": {}, "spec": spec}}}))
PYTHON
}
refused() { # NAME OVERLAY CHANGE MESSAGE
	sandbox "$2" "$3"
	if taken "$work/sandbox.json"; then
		fail "$1: it was taken"
	elif ! grep -qF -- "$4" "$work/said"; then
		fail "$1: refused otherwise: $(cat "$work/said")"
	else
		echo "ok  	$1: $4"
	fi
}
# The binding takes effect some moments after it was made.
sandbox base ''
for _ in $(seq 100); do
	taken "$work/sandbox.json" || break
	sleep 0.1
done
sandbox gvisor ''
taken "$work/sandbox.json" && echo 'ok  	a sandbox passes the hardened sample' || fail "a sandbox: $(cat "$work/said")"
refused 'without gVisor' base '' "must use 'runtimeClassName: gvisor'"
# But for that, and where it is scheduled, the base passes.
sandbox base 'spec["runtimeClassName"] = "gvisor"; spec["nodeSelector"] = {"sandbox.gke.io/runtime": "gvisor"}; spec["tolerations"] = [{"key": "sandbox.gke.io/runtime", "operator": "Equal", "value": "gvisor", "effect": "NoSchedule"}]'
taken "$work/sandbox.json" || fail "the base: $(cat "$work/said")"
refused 'a token' gvisor 'spec["automountServiceAccountToken"] = True' "'automountServiceAccountToken' must be explicitly set to 'false'"
refused 'the network of the node' gvisor 'spec["hostNetwork"] = True' "'hostNetwork: true' is strictly prohibited"
refused 'a privileged sidecar' gvisor 'sandboxd["securityContext"]["privileged"] = True' 'Privileged containers are not allowed'
refused 'a capability kept' gvisor 'del runner["securityContext"]["capabilities"]' "explicitly drop 'ALL' capabilities"
refused 'a capability added' gvisor 'sandboxd["securityContext"]["capabilities"]["add"] = ["NET_ADMIN"]' 'Capabilities.add must be empty'
refused 'no limit' gvisor 'del install["resources"]["limits"]["cpu"]' 'must define resource limits'
refused 'root' gvisor 'runner["securityContext"]["runAsNonRoot"] = False' "must set 'runAsNonRoot: true'"
refused 'a directory of the node' gvisor 'spec["volumes"].append({"name": "host", "hostPath": {"path": "/"}})' 'HostPath volumes are strictly prohibited'

kubectl delete --wait=false -f "$source/examples/policy/vap/secure-sandbox-binding.yaml" -f "$source/examples/policy/vap/secure-sandbox-policy.yaml" >/dev/null
exit "$failed"
