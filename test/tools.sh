#!/usr/bin/env bash
# Installs what the tests need and this machine lacks: a C compiler (race detector), libseccomp (an oracle for our compiler), an interpreter
# that a sandbox can show, and the programs that the tests call.
set -euo pipefail

packages=()
need() { packages+=("$1"); }

command -v gcc >/dev/null || need gcc
test -e /usr/include/stdlib.h || need libc6-dev
test -e /usr/include/seccomp.h || need libseccomp-dev
command -v pkg-config >/dev/null || need pkg-config
test -x /usr/bin/python3 || need python3
# Environments of Python: a sandbox sees the system's interpreter alone, and a distribution has venv in a package of its own.
/usr/bin/python3 -c 'import venv, ensurepip' 2>/dev/null || need python3-venv
command -v setpriv >/dev/null || need util-linux
command -v setcap >/dev/null || test -x /usr/sbin/setcap || need libcap2-bin
command -v git >/dev/null || need git
# The test network, and the clients that are driven through it.
command -v ip >/dev/null || test -x /usr/sbin/ip || need iproute2
command -v curl >/dev/null || need curl
command -v openssl >/dev/null || need openssl
command -v dig >/dev/null || need bind9-dnsutils
# A container runtime, for the drop-in runner of docs/datarobot.md.
command -v runc >/dev/null || test -x /usr/sbin/runc || need runc
# What gives the unit its score.
command -v systemd-analyze >/dev/null || need systemd
command -v node >/dev/null || need nodejs
command -v psql >/dev/null || need postgresql-client
/usr/bin/python3 -c 'import requests' 2>/dev/null || need python3-requests

if [ ${#packages[@]} -gt 0 ]; then
	if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
		echo "tests need these packages (Debian's names): ${packages[*]}" >&2
		exit 1
	fi
	export DEBIAN_FRONTEND=noninteractive
	apt-get update -qq
	apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null
fi
"$(dirname "$0")/clients.sh" >/dev/null
