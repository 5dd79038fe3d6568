#!/usr/bin/env bash
# Makes an environment of Python with pinned packages, once, and prints its path. It is kept in the user's cache directory under the digest of the lists and
# of the interpreter: other lists are another environment, and none is ever half there. A link without the digest leads to the newest.
#
#   venv.sh NAME PYTHON FILE...     each FILE is a list of requirements, dependencies included; "" for any Python from 3.11 to 3.13
#   VENV_DEPENDENCIES=1 venv.sh …   the lists leave dependencies out, and whichever fit are installed too
#
# Status 3: there is no such interpreter with venv and ensurepip.
set -euo pipefail

name=$1 python=$2
shift 2
usable() { "$1" -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; }
if [ -z "$python" ]; then
	for python in python3.13 python3.12 python3.11 /usr/bin/python3 python3; do
		usable "$python" && break
	done
fi
usable "$python" || { echo "$name: no Python from 3.11 to 3.13 with venv and ensurepip" >&2; exit 3; }

cache=${XDG_CACHE_HOME:-$HOME/.cache}/sandboxd
venv=$cache/$name-$( (cat "$@"; "$python" -VV) | sha256sum | cut -c 1-16)
lists=()
if [ -z "${VENV_DEPENDENCIES:-}" ]; then
	lists=(--no-deps)
fi
for file in "$@"; do
	lists+=(-r "$file")
done
mkdir -p "$cache"
exec 9>"$cache/$name.lock"
flock 9
if [ ! -e "$venv/complete" ]; then
	rm -rf "$venv"
	"$python" -m venv "$venv" >&2
	"$venv/bin/pip" install --quiet --disable-pip-version-check "${lists[@]}" >&2
	touch "$venv/complete"
fi
ln -sfn "$venv" "$cache/$name"
echo "$venv"
