#!/usr/bin/env bash
# The chart: lint, unit tests of each template and of what is refused, the README against the values, and for every file of values the API server's own
# decoding and validation of what it renders, at the Pod Security level that it names.
#
#   chart.sh BIN TESTBED     BIN has sandboxd; TESTBED has kube-build.sh, which builds helm and its like into the user's cache
set -euo pipefail

sandboxd=$(realpath "$1")/sandboxd
testbed=${2:-}
if [ -z "$testbed" ]; then
	echo "SKIP test-chart: no testbed; SANDBOXD_TESTBED names the directory that has kube-build.sh"
	exit 0
fi
cd "$(dirname "$0")/../deploy/helm/sandboxd"
"$testbed/kube-build.sh" up helm helm-unittest helm-docs podcheck 2>&1 | grep -v 'is there$' || true
bin=${SANDBOXD_TESTBED_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/sandboxd-testbed}/bin

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# The bundle is a link to the repository's own, which helm says each time.
quiet() { "$@" 2> >(grep -v 'found symbolic link in path' >&2); }

quiet "$bin/helm" lint . --quiet --values values/restricted.yaml
quiet "$bin/helm-unittest" .
"$bin/helm-docs" --chart-search-root . --dry-run --sort-values-order file --log-level error >"$work/README.md"
diff -u README.md "$work/README.md" || { echo "deploy/helm/sandboxd/README.md is old: helm-docs writes it"; exit 1; }

for values in values/*.yaml; do
	level=$(sed -n '1s/^# Pod Security: //p' "$values")
	test -n "$level" || { echo "$values: the first line must name its Pod Security level"; exit 1; }
	quiet "$bin/helm" template release . --namespace ns --values "$values" >"$work/rendered.yaml"
	"$bin/podcheck" -level "$level" "$work/rendered.yaml"
	if [ "$level" != restricted ] && "$bin/podcheck" -level baseline "$work/rendered.yaml" >/dev/null; then
		echo "$values: passes baseline, so that $level says too much"
		exit 1
	fi
	# No token is in any container but the sidecar, and there only where events are asked for.
	with_token=$(awk '
		/^        name: / { container = $2 }
		/^      volumes:/ { container = "" }
		/name: sandboxd-events, mountPath/ || /mountPath: \/var\/run\/secrets/ { print container }' "$work/rendered.yaml" | sort -u | tr '\n' ' ')
	wanted=
	if grep -q 'serviceAccountToken:' "$work/rendered.yaml"; then wanted='sandboxd '; fi
	if [ "$with_token" != "$wanted" ] || { [ -n "$wanted" ] && ! grep -q '^events:' "$values"; }; then
		echo "$values: a token is in: ${with_token:-nowhere}; want: ${wanted:-nowhere}"
		exit 1
	fi
	# The bundle as the kubelet would lay it out: it compiles, its tests pass, and what the settings allow contradicts none of its cases.
	rm -rf "$work/bundle"
	python3 - "$work/rendered.yaml" "$work/bundle" <<'PYTHON'
import pathlib, sys
key = None
inside = False
for line in open(sys.argv[1]):
    if line.startswith("---"):
        inside = key = None
    elif line == "kind: ConfigMap\n":
        inside = True
    elif inside and line.startswith("  ") and line.endswith(": |\n") and line[2] != " ":
        key = pathlib.Path(sys.argv[2], line[2:-4].replace("__", "/"))
        key.parent.mkdir(parents=True, exist_ok=True)
        key.write_text("")
    elif inside and key and (line.startswith("    ") or line == "\n"):
        with key.open("a") as file:
            file.write(line[4:] or "\n")
PYTHON
	if [ -d "$work/bundle" ]; then
		"$sandboxd" policy check "$work/bundle" >/dev/null
		"$sandboxd" policy test "$work/bundle" >/dev/null || { "$sandboxd" policy test "$work/bundle"; exit 1; }
	fi
	echo "ok  	$values (Pod Security $level)"
done

# The package is whole, its bundle with it: it installs from elsewhere as from here.
quiet "$bin/helm" package . --destination "$work" >/dev/null
quiet "$bin/helm" template release "$work"/sandboxd-*.tgz --namespace ns --values values/restricted.yaml >"$work/packaged.yaml"
quiet "$bin/helm" template release . --namespace ns --values values/restricted.yaml | diff - "$work/packaged.yaml"
