#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# packages.sh - install the Debian packages that a group of make targets needs
#
# usage: packages.sh GROUP...      groups: build run test clang lint fuzz cover vm image bench
#                                          deb system
#
# A package is missing when what we use of it is missing, so a tool that came by another way
# counts. Nothing missing: no call of apt-get, no network, no rights needed.
set -eu
LC_ALL=C
export LC_ALL

say() { printf 'setup: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

missing=
want() { case " $missing " in *" $1 "*) ;; *) missing="${missing:+$missing }$1" ;; esac; }
have() { command -v "$1" >/dev/null 2>&1; }
# need_command PACKAGE COMMAND...: any of the commands will do
need_command() {
	package=$1
	shift
	for c; do
		if have "$c"; then return; fi
	done
	want "$package"
}
# need_file PACKAGE FILE...: any of the files will do
need_file() {
	package=$1
	shift
	for f; do
		if [ -e "$f" ]; then return; fi
	done
	want "$package"
}

# the tests can fetch it for a python that has pip
need_numpy() {
	python3 -c 'import numpy' 2>/dev/null || python3 -m pip --version >/dev/null 2>&1 ||
		want python3-numpy
}

group_build() {
	compiler=${CC:-gcc}
	need_command gcc "${compiler%% *}"
	need_command make make
	need_file libc6-dev /usr/include/stdio.h
	need_file libseccomp-dev /usr/include/seccomp.h
	need_file libcap-dev /usr/include/sys/capability.h
}

group_run() { need_command python3 python3 go node; }

group_test() {
	need_command podman podman # for SANDBOX_TYPE=docker
	need_command runc runc
	need_command perl prove
	need_file python3-pytest /usr/lib/python3/dist-packages/pytest/__init__.py
	need_file python3-pytest-timeout /usr/lib/python3/dist-packages/pytest_timeout.py
	need_file python3-yaml /usr/lib/python3/dist-packages/yaml/__init__.py
	need_file python3-jsonschema /usr/lib/python3/dist-packages/jsonschema/__init__.py
	need_command python3 python3
	need_command golang-go go
	need_command nodejs node
	need_command npm npm
	need_numpy
	need_command bash bash
	need_command busybox-static busybox
	need_command curl curl
	need_command git git
	need_command jq jq
	need_command procps ps
	need_command slowhttptest slowhttptest
	need_command chromium chromium
	need_command chromium-driver chromedriver
	need_file fonts-dejavu-core /usr/share/fonts/truetype/dejavu
	need_command runc runc
	need_command skopeo skopeo
	need_file golang-github-containers-common /usr/share/containers/seccomp.json
	need_command util-linux unshare
}

group_clang() { need_command clang clang; }

group_lint() {
	need_command clang clang
	need_command clang-format clang-format
	need_command clang-tidy clang-tidy
	need_command cppcheck cppcheck
	need_command shellcheck shellcheck
	need_command mandoc mandoc
}

group_fuzz() {
	need_file libclang-rt-14-dev /usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.fuzzer-*.a
}

group_cover() {
	need_command llvm llvm-cov
	need_file libclang-rt-14-dev /usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.profile-*.a
}

group_vm() { need_command qemu-system-x86 qemu-system-x86_64; }

group_deb() {
	need_command debhelper dh
	need_command dpkg-dev dpkg-buildpackage
}

# what puts a Debian with systemd into a virtual machine
group_system() {
	need_command debootstrap debootstrap
	need_command e2fsprogs mke2fs
	need_command busybox-static busybox
}

group_image() {
	need_command podman podman
	need_command buildah buildah
	need_command runc runc
	need_command debootstrap debootstrap
	need_command curl curl
	need_command iproute2 ip
	need_command golang-go go
	need_command npm npm
	need_file ca-certificates /etc/ssl/certs/ca-certificates.crt
}

group_debian() { need_command debootstrap debootstrap; }

group_bench() { # what we are measured against, where Debian has it
	need_command bubblewrap bwrap
	need_command firejail firejail
	need_command runc runc
	need_command crun crun
	need_command podman podman
	need_command util-linux unshare
	need_command bash bash
	need_command python3 python3
	need_command nodejs node
	need_command golang-go go
	need_file python3-numpy /usr/lib/python3/dist-packages/numpy/__init__.py
}

# Show what apt-get is doing, one line a package, and keep its exit status.
apt() {
	{
		status=0
		$sudo env DEBIAN_FRONTEND=noninteractive apt-get -q -y \
			-o DPkg::Lock::Timeout=300 "$@" 2>&1 || status=$?
		echo "status $status"
	} | awk '
		/^status / { code = $2 }
		/^Get:.*\[/ && NF > 6 { print "setup:   fetching " $5 > "/dev/stderr" }
		/^Setting up/ { print "setup:   installing " $3 > "/dev/stderr" }
		/^E: / { error = $0 }
		END {
			if (code && error)
				print "setup: apt-get says " error > "/dev/stderr"
			exit code
		}'
}

[ $# -gt 0 ] || die "usage: packages.sh GROUP..."
for group; do
	case $group in
	build | run | test | clang | lint | fuzz | cover | vm | image | bench | deb | system | debian)
		"group_$group" ;;
	*) die "no package group '$group'" ;;
	esac
done
[ -n "$missing" ] || exit 0

line="apt-get install -y --no-install-recommends $missing"
have apt-get || die "these Debian packages are missing and there is no apt-get here: $missing"
sudo=
if [ "$(id -u)" != 0 ]; then
	have sudo || die "packages are missing; type this as root: $line"
	sudo -n true 2>/dev/null || die "packages are missing; type this once: sudo $line"
	sudo='sudo -n'
fi

say "installing $missing"
# The lists may be absent or old: then a first try fails, and a second one follows an update.
# shellcheck disable=SC2086 # the package names are words
if ! apt-get -q -s install --no-install-recommends $missing >/dev/null 2>&1 ||
	! apt install --no-install-recommends $missing; then
	say "reading the package lists"
	apt update || die "cannot read the package lists; check apt's sources, then: $line"
	apt install --no-install-recommends $missing ||
		die "could not install the packages; try: $line"
fi
