#!/usr/bin/env bash
# Installs the pinned requirements of DataRobot's client into an environment of their own, and prints its path. It is kept in the user's cache
# directory under the hash of the list and of the interpreter: another list is another environment, and none is ever half there.
#
#   datarobot-venv.sh REQUIREMENTS
set -euo pipefail

requirements=$1
# The client wants one of 3.11 to 3.13.
for python in python3.13 python3.12 python3.11 /usr/bin/python3; do
	"$python" -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null && break
	python=
done
test -n "$python" || { echo "datarobot: no Python from 3.11 to 3.13 with venv and ensurepip" >&2; exit 1; }
key=$( (cat "$requirements"; "$python" -VV) | sha256sum | cut -c 1-16)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/sandboxd
venv=$cache/datarobot-$key
if [ ! -e "$venv/complete" ]; then
	mkdir -p "$cache"
	exec 9>"$cache/datarobot.lock"
	flock 9
	if [ ! -e "$venv/complete" ]; then
		rm -rf "$venv"
		"$python" -m venv "$venv" >&2
		"$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps -r "$requirements" >&2
		"$venv/bin/python" -c 'import datarobot_genai.drtools.core.sandbox, pytest' >&2
		touch "$venv/complete"
	fi
fi
echo "$venv"
