#!/usr/bin/env bash
# The Python package against a daemon as it is installed: bin/sandboxd serve, over its socket.
set -euo pipefail

bin=$(realpath "$1")
root=$(cd "$(dirname "$0")/.." && pwd)
env=$("$root/test/clients.sh")

work=$(mktemp -d)
chmod 700 "$work"
daemon=
trap '[ -n "$daemon" ] && kill "$daemon" 2>/dev/null; wait 2>/dev/null; rm -rf "$work"' EXIT

# As a user would get it, not from the working directory, where building it would leave files.
mkdir "$work/source"
cp -r "$root/clients/python/pyproject.toml" "$root/clients/python/README.md" "$root/clients/python/src" "$work/source"
"$env/bin/pip" -q install --no-deps --no-build-isolation --target "$work/site" "$work/source"
"$env/bin/mypy" --cache-dir "$work/mypy" --config-file "$root/clients/python/pyproject.toml" "$root/clients/python/src/sandboxd"

"$bin/sandboxd" serve --socket "$work/run/s" --state "$work/state" >"$work/log" 2>&1 &
daemon=$!
for _ in $(seq 600); do
	"$bin/sandboxd" healthz --ready --socket "$work/run/s" >/dev/null 2>&1 && break
	kill -0 "$daemon" 2>/dev/null || { cat "$work/log" >&2; exit 1; }
	sleep 0.1
done
cd "$work"
PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$work/site" SANDBOXD_SOCKET="$work/run/s" "$env/bin/python" -m pytest -q -p no:cacheprovider \
	--rootdir "$root/clients/python" "$root/clients/python/tests"
