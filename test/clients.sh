#!/usr/bin/env bash
# Prints the path of the one environment that has the clients of the tests: DataRobot's own with all that it needs, as the conformance material pins it, and
# what the Python package is tested with. Without that material there is the client's package alone, whose parser of markers is an oracle of ours.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
contract=${SANDBOXD_CONFORMANCE:-}/datarobot/requirements.txt
test -e "$contract" || contract=$here/clients/alone.txt
exec "$here/venv.sh" clients "" "$contract" "$here/clients/tools.txt"
