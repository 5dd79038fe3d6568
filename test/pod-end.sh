# Sourced by pod.sh: how a pod ends. What runs goes on while the pod drains, the audit log is sealed, and a pod of a Job ends with its app. The log is on a
# directory of this machine, so that it can be verified when the pod is gone.
#
# shellcheck shell=bash disable=SC2154

record=$work/record
cat >"$work/ending.py" <<'PYTHON'
import json, sys
record, name, node = sys.argv[1:]
template = json.load(sys.stdin)["spec"]["template"]
spec = dict(template["spec"], nodeName=node)
for volume in spec["volumes"]:
    if volume["name"] == "sandboxd-state":
        volume.pop("emptyDir")
        volume["hostPath"] = {"path": record, "type": "Directory"}
print(json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": template["metadata"]["labels"]}, "spec": spec}))
PYTHON
ending_pod() { # NAME KIND VALUES...: the chart's pod with its log on $record
	rm -rf "$record"
	install -d -o 65532 -g 65532 -m 0700 "$record"
	local name=$1 kind=$2 values=()
	shift 2
	for one in "$@"; do values+=(--values "$one"); done
	helm template it "$chart" "${values[@]}" 2> >(grep -v 'found symbolic link' >&2) >"$work/rendered.yaml"
	kube apply --server-side --force-conflicts -f "$work/rendered.yaml" >/dev/null
	kube get "$kind" it-sandboxd -o json | python3 "$work/ending.py" "$record" "$name" "${TESTBED_NODE_NAME:-localhost}" | kube apply -f - >/dev/null
}
sealed() { "$bin/sandboxd" audit verify --sealed "$record/audit"; }
finished() { "$bin/sandboxd" audit show --json --type outcome "$record/audit" | grep -q '"outcome":"ok"'; }

# A pod that is deleted.
ending_pod it deployment "$chart/values/restricted.yaml" "$work/values.yaml"
check 'a pod whose log outlives it is ready' within 60 ready
check 'how it is, for people' says 'connected as uid 65533' sidecar status --socket "$socket"
check 'how it is: ready' says ': ready, up ' sidecar status --socket "$socket"
check 'while it runs the log is not sealed' says 'not sealed' sealed
kube exec it -c sandboxd -- /sandboxd exec --socket "$socket" --stdin none -- /bin/sh -c 'sleep 3; echo ended by itself' >"$work/drained" 2>&1 &
client=$!
check 'a command runs that the deletion meets' within 20 says 'sleep 3' kube exec it -c app -- /bin/ps
check 'the pod is deleted' kube delete pod it --grace-period=30 --timeout=28s
wait "$client" || true
check 'what ran has ended by itself' grep -q 'ended by itself' "$work/drained"
check 'and is on record so' finished
check 'the log is sealed' sealed

# A pod that ends with its app.
cat >"$work/job.yaml" <<VALUES
kind: Job
app:
  command: [/bin/sh, -c, 'until /bin/sandboxd healthz --ready --socket $socket; do sleep 0.1; done; exec /bin/sandboxd exec --socket $socket --stdin none -- /bin/sh -c "echo done"']
VALUES
succeeded() { [ "$(kube get pod one-shot -o 'jsonpath={.status.phase}')" = Succeeded ]; }
ending_pod one-shot job "$chart/values/restricted.yaml" "$work/values.yaml" "$work/job.yaml"
check 'the pod of a Job ends with its app' within 60 succeeded
check 'its app had its answer' says done kube logs one-shot -c app
check 'the log of a Job is sealed' sealed
kube delete pod one-shot --grace-period=1 >/dev/null

# The ten minutes of docs/kubernetes.md, line by line, as somebody types them. What isn't here is done by hand: an engine that builds the image, and the controllers
# that make a Deployment's pod.
ours=(--set image.repository=testbed.local/sandboxd --set image.pullPolicy=Never --set-string image.tag=1 --set runner.image=testbed.local/runner:1 --set runner.pullPolicy=Never)
rolled_out() { [ "$(kubectl get pod mine -o 'jsonpath={.status.conditions[?(@.type=="Ready")].status}')" = True ]; }
typed() { # LINE
	case $1 in
	'docker build '*) return ;;
	'helm install '*) eval "$1 ${ours[*]}" ;;
	'kubectl rollout '*)
		kubectl get deployment mine-sandboxd -o json | python3 "$work/ending.py" "$record" mine "${TESTBED_NODE_NAME:-localhost}" | kubectl apply -f - &&
			within 60 rolled_out
		;;
	*) eval "$1" ;;
	esac
}
rm -rf "$record"
install -d -o 65532 -g 65532 -m 0700 "$record"
cd "$here/.."
lines=0
while IFS= read -r line; do
	lines=$((lines + 1))
	check "typed: $(sed "s, *#.*,," <<<"$line")" typed "$line" </dev/null
	cp "$work/said" "$work/answer"
	case $line in
	*' -- id') check 'it says what held' grep -q 'held: tier restricted' "$work/answer" ;;
	*'/sandboxd status '*) check 'it says how it is' grep -q ': ready, up ' "$work/answer" ;;
	*'/sandboxd audit verify '*) check 'it says what holds' grep -q '^holds: ' "$work/answer" ;;
	esac
done < <(sed -n '/^## Ten minutes/,/^## What/{/^```sh$/,/^```$/{/^```/!p}}' docs/kubernetes.md)
[ "$lines" -ge 8 ] || { echo "FAIL	docs/kubernetes.md has $lines lines to type"; failed=1; }
kubectl delete pod mine --grace-period=5 >/dev/null
