#!/usr/bin/env bash
# OpenSandbox's own Python SDKs, and Airflow's provider, unmodified, against the façade of a real daemon: our suite of the code-interpreter SDK, and those of
# opensandbox and airflow in the conformance material, with the hosts that they name in a network namespace of the test's own.
#
#   opensandbox.sh BIN CONFORMANCE [AIRFLOW]     BIN has sandboxd and sandboxd-runner; without CONFORMANCE there is only our own;
#                                                AIRFLOW "no" leaves out Airflow's suite, whose requirements are some hundred packages
set -euo pipefail

bin=$(cd "$1" && pwd)
material=${2:-}
here=$(cd "$(dirname "$0")" && pwd)
# A sandbox sees the system's directories, so that an interpreter elsewhere won't do for it.
status=0
packages=$("$here/venv.sh" imports /usr/bin/python3 "$here/imports/requirements.txt") || status=$?
if [ "$status" -eq 3 ]; then
	echo "opensandbox: left out"
	exit 0
fi
test "$status" -eq 0
export VENV_DEPENDENCIES=1
code=$("$here/venv.sh" opensandbox-code "" "$here/opensandbox/code/requirements.txt")/bin/python
suites() {
	SANDBOXD_BIN=$bin SANDBOXD_SUITE_CODE=$code SANDBOXD_SUITE_PACKAGES=$packages CGO_ENABLED=0 "${GO:-go}" test -count 1 -timeout 20m -v -run "$1" .
}
if [ -z "$material" ]; then
	echo "opensandbox: no conformance material beside the repository, and SANDBOXD_CONFORMANCE names none; its suites are left out"
	cd "$here/opensandbox"
	suites TestSuiteCode
	exit
fi
python=$("$here/venv.sh" opensandbox "" "$material/opensandbox/requirements.txt")/bin/python
airflow=
if [ "${3:-}" != no ]; then
	airflow=$("$here/venv.sh" airflow "" "$material/airflow/requirements.txt")/bin/python
fi
cd "$here/opensandbox"
export SANDBOXD_SUITE_PYTHON=$python SANDBOXD_SUITE_AIRFLOW=$airflow SANDBOXD_SUITE=$material
suites TestSuite
