#!/usr/bin/env bash
# Runs every fuzz target of the repository for the given time.
set -euo pipefail

time=$1
git grep -lE '^func Fuzz' -- '*_test.go' | while read -r file; do
	grep -oE '^func Fuzz[A-Za-z0-9_]*' "$file" | cut -c6- | while read -r target; do
		echo "== $file $target"
		go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" "./$(dirname "$file")"
	done
done
