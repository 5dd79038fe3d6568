#!/usr/bin/env bash
# The Python package against a daemon as it is installed: bin/sandboxd serve, over its socket. Environments of Python are kept under the user's cache
# directory, by what is in them.
set -euo pipefail

bin=$(realpath "$1")
root=$(cd "$(dirname "$0")/.." && pwd)
contract=${SANDBOXD_CONFORMANCE:+$SANDBOXD_CONFORMANCE/datarobot/requirements.txt}

# The newest interpreter from 3.11 to 3.13 that this machine has: the contract's own client wants one of those.
for python in python3.13 python3.12 python3.11 /usr/bin/python3 python3; do
	"$python" -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null && break
	python=
done
test -n "$python" || { echo "test/python.sh: no Python from 3.11 to 3.13 with venv and ensurepip" >&2; exit 1; }

key=$(cat "$root/clients/python/pyproject.toml" ${contract:+"$contract"} <("$python" --version) | sha256sum | cut -c1-16)
env="${XDG_CACHE_HOME:-$HOME/.cache}/sandboxd/python-$key"
if [ ! -e "$env/ready" ]; then
	rm -rf "$env"
	"$python" -m venv "$env"
	if [ -n "$contract" ]; then
		"$env/bin/pip" -q install --no-deps -r "$contract"
	fi
	"$env/bin/pip" -q install httpx==0.28.1 pytest==9.2.0 mypy==1.19.1 setuptools==80.9.0
	touch "$env/ready"
fi

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
