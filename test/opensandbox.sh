#!/usr/bin/env bash
# OpenSandbox's own Python SDK, and Airflow's provider, unmodified, against the façade of a real daemon: the suites of opensandbox and airflow in the
# conformance material, with the hosts that they name in a network namespace of the test's own.
#
#   opensandbox.sh BIN CONFORMANCE [AIRFLOW]     BIN has sandboxd and sandboxd-runner; without CONFORMANCE there is nothing to run;
#                                                AIRFLOW "no" leaves out Airflow's suite, whose requirements are some hundred packages
set -euo pipefail

bin=$(cd "$1" && pwd)
material=${2:-}
if [ -z "$material" ]; then
	echo "opensandbox: no conformance material beside the repository, and SANDBOXD_CONFORMANCE names none; left out"
	exit 0
fi
here=$(cd "$(dirname "$0")" && pwd)
export VENV_DEPENDENCIES=1
python=$("$here/venv.sh" opensandbox "" "$material/opensandbox/requirements.txt")/bin/python
airflow=
if [ "${3:-}" != no ]; then
	airflow=$("$here/venv.sh" airflow "" "$material/airflow/requirements.txt")/bin/python
fi
cd "$here/opensandbox"
SANDBOXD_BIN=$bin SANDBOXD_SUITE_PYTHON=$python SANDBOXD_SUITE_AIRFLOW=$airflow SANDBOXD_SUITE=$material \
	CGO_ENABLED=0 "${GO:-go}" test -count 1 -timeout 20m -v -run 'TestSuite' .
