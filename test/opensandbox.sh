#!/usr/bin/env bash
# OpenSandbox's clients, unmodified, against the façade of a real daemon, with the hosts that they name in a network namespace of the test's own.
#
#   opensandbox.sh BIN CONFORMANCE [SUITE...]     BIN has sandboxd and sandboxd-runner; all suites, or those that are named:
#
#   code      our suite of the code-interpreter SDK
#   clients   ours of the JavaScript SDK, the command line and the MCP server
#   sdk       that of the Python SDK, which is conformance material
#   airflow   that of Airflow's provider, which is too, and the Dag of examples/airflow; the requirements are some hundred packages
set -euo pipefail

bin=$(cd "$1" && pwd)
material=${2:-}
suites=${*:3}
suites=${suites:-code clients sdk airflow}
here=$(cd "$(dirname "$0")" && pwd)
if [ "$(id -u)" -ne 0 ]; then
	echo "opensandbox: only root may make the network namespace; left out"
	exit 0
fi
export SANDBOXD_BIN=$bin SANDBOXD_SUITE=$material
tests=
resolved() { VENV_DEPENDENCIES=1 "$here/venv.sh" "$@"; }
for suite in $suites; do
	case $suite in
	code)
		# A sandbox sees the system's directories, so that an interpreter elsewhere won't do for it.
		status=0
		packages=$(resolved imports /usr/bin/python3 "$here/imports/requirements.txt") || status=$?
		if [ "$status" -eq 3 ]; then
			echo "opensandbox: the suite of the code-interpreter SDK is left out"
			continue
		fi
		test "$status" -eq 0
		code=$(resolved opensandbox-code "" "$here/opensandbox/code/requirements.txt")
		export SANDBOXD_SUITE_PACKAGES=$packages SANDBOXD_SUITE_CODE=$code/bin/python
		tests+='|TestSuiteCode'
		;;
	clients)
		clients=$("$here/venv.sh" opensandbox-clients "" "$here/opensandbox/clients/requirements.txt")
		newest=$("$here/venv.sh" opensandbox-mcp "" "$here/opensandbox/clients/mcp/newest.txt")
		modules=$(PATH=$clients/bin:$PATH "$here/npm.sh" opensandbox "$here/opensandbox/clients/js")
		export SANDBOXD_CLIENTS=$clients/bin SANDBOXD_CLIENTS_NEWEST=$newest/bin SANDBOXD_CLIENTS_MODULES=$modules
		tests+='|TestClients'
		;;
	sdk)
		if [ -z "$material" ]; then
			echo "opensandbox: no conformance material beside the repository, and SANDBOXD_CONFORMANCE names none; the suite of the Python SDK is left out"
			continue
		fi
		python=$(resolved opensandbox "" "$material/opensandbox/requirements.txt")
		export SANDBOXD_SUITE_PYTHON=$python/bin/python
		tests+='|TestSuiteOpenSandbox'
		;;
	airflow)
		list=$here/../examples/airflow/requirements.txt
		tests+='|TestExample'
		if [ -n "$material" ]; then
			list=$material/airflow/requirements.txt
			tests+='|TestSuiteAirflow'
		else
			echo "opensandbox: no conformance material; the suite of Airflow's provider is left out"
		fi
		airflow=$(resolved airflow "" "$list")
		export SANDBOXD_SUITE_AIRFLOW=$airflow/bin/python
		;;
	*)
		echo "opensandbox: there is no suite $suite; there are code, clients, sdk and airflow" >&2
		exit 2
		;;
	esac
done
if [ -z "$tests" ]; then
	exit 0
fi
cd "$here/opensandbox"
said=$(mktemp)
trap 'rm -f "$said"' EXIT
CGO_ENABLED=0 "${GO:-go}" test -count 1 -timeout 20m -v -run "^(${tests#|})\$" . | tee "$said"
if grep -q -e '--- SKIP' "$said"; then
	echo "opensandbox: nothing may be skipped that was asked for" >&2
	exit 1
fi
