#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# image.sh - what the Containerfile does to a base image, for each flavour
#
# usage: image.sh python|golang|node|shell [PACKAGE...]      PACKAGEs are Debian's
#
# Runs as root in the image. Libraries of the server, the user that it runs as, no setuid file, and
# a list of what is there beside the base's own list: the papers of the image.
set -eu
LC_ALL=C
export LC_ALL
flavour=$1
shift
doc=/usr/local/share/doc/sandbox-server

# at_least VERSION MAJOR MINOR WHAT
at_least() {
	if [ -z "$1" ]; then
		echo "image: the base has no $4" >&2
		exit 1
	fi
	rest=${1#*.}
	major=${1%%.*}
	minor=${rest%%[!0-9]*}
	if [ "$major" -gt "$2" ] || { [ "$major" -eq "$2" ] && [ "$minor" -ge "$3" ]; }; then return; fi
	echo "image: the base has $4 $1; $2.$3 or later is needed" >&2
	exit 1
}

case $flavour in
python) at_least "$(python3 -c 'import platform; print(platform.python_version())')" 3 12 python ;;
golang) at_least "$(GOTOOLCHAIN=local go version | sed 's/.* go\([0-9.]*\).*/\1/')" 1 25 go ;;
node) at_least "$(node -p process.versions.node)" 22 0 node ;;
shell) at_least "$(bash -c 'echo "$BASH_VERSION"')" 5 0 bash ;;
*)
	echo "image: no flavour '$flavour'" >&2
	exit 1
	;;
esac

export DEBIAN_FRONTEND=noninteractive
apt-get update
apt-get install -y --no-install-recommends libcap2 libseccomp2 "$@"
apt-get clean
rm -rf /var/lib/apt/lists/* /var/log/apt /var/log/dpkg.log /var/log/alternatives.log
if [ "$flavour" = python ]; then
	pip install --no-cache-dir --root-user-action=ignore uv
fi
# images of some bases have a user of their own, who is nobody here
useradd --uid 65532 --user-group --home-dir /tmp --no-create-home --shell /usr/sbin/nologin sandbox
find / -xdev -type f -perm /6000 -exec chmod a-s {} +

mkdir -p "$doc"
# shellcheck disable=SC2016 # dpkg-query's
dpkg-query -W -f '${Package} ${Version} ${source:Package} ${source:Version}\n' >"$doc/debian.lock"
if [ "$flavour" = python ]; then pip freeze --all >"$doc/python.lock"; fi
if [ "$flavour" = node ] && command -v npm >/dev/null; then
	npm ls -g --all --parseable --long >"$doc/node.lock" 2>/dev/null || :
fi
