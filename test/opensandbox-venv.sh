#!/usr/bin/env bash
# Installs pinned requirements into an environment of their own, and prints its path. It is kept in the user's cache directory under the hash of the list
# and of the interpreter: another list is another environment, and none is ever half there.
#
#   opensandbox-venv.sh NAME REQUIREMENTS MODULES     NAME is a word for the directory, MODULES, joined by commas, must be importable then
set -euo pipefail

name=$1 requirements=$2 modules=$3
# Airflow's provider wants one of 3.10 to 3.13, the SDK 3.10 or newer.
for python in python3.13 python3.12 python3.11 python3.10 /usr/bin/python3; do
	"$python" -c 'import sys, venv, ensurepip; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null && break
	python=
done
test -n "$python" || { echo "$name: no Python from 3.10 to 3.13 with venv and ensurepip" >&2; exit 1; }
key=$( (cat "$requirements"; "$python" -VV) | sha256sum | cut -c 1-16)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/sandboxd
venv=$cache/$name-$key
if [ ! -e "$venv/complete" ]; then
	mkdir -p "$cache"
	exec 9>"$cache/$name.lock"
	flock 9
	if [ ! -e "$venv/complete" ]; then
		rm -rf "$venv"
		"$python" -m venv "$venv" >&2
		"$venv/bin/pip" install --quiet --disable-pip-version-check -r "$requirements" >&2
		"$venv/bin/python" -c "import $modules" >&2
		touch "$venv/complete"
	fi
fi
echo "$venv"
