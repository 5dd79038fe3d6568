#!/usr/bin/env bash
# Installs what a package-lock.json pins, once, and prints the path of its node_modules. It is kept in the user's cache directory under the lock's digest, and
# none is ever half there. Scripts of packages aren't run.
#
#   npm.sh NAME FOLDER     FOLDER has package.json and package-lock.json; node and npm are on the path
set -euo pipefail

name=$1 folder=$2
cache=${XDG_CACHE_HOME:-$HOME/.cache}/sandboxd
modules=$cache/npm-$name-$( (cat "$folder/package.json" "$folder/package-lock.json"; node --version) | sha256sum | cut -c 1-16)
mkdir -p "$cache"
exec 9>"$cache/npm-$name.lock"
flock 9
if [ ! -e "$modules/complete" ]; then
	rm -rf "$modules"
	mkdir "$modules"
	cp "$folder/package.json" "$folder/package-lock.json" "$modules"
	(cd "$modules" && npm ci --ignore-scripts --no-fund --no-audit --loglevel=error >&2)
	touch "$modules/complete"
fi
echo "$modules/node_modules"
