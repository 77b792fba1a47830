#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# deps.sh - put mongoose.{c,h} and parson.{c,h} into a directory, by apt, checked by hash
#
# usage: deps.sh DIRECTORY
# environment: MONGOOSE_DIR, PARSON_DIR   take the files from there instead
#
# Nothing is installed: apt-get runs with its state, its lists and its sources in a directory of
# our own, with sources made from the machine's own configuration. The archive's signature is
# checked as usual, and every file must have a hash listed in deps.sha256. What is already there
# is left alone, so that later runs need no network. DIRECTORY/deps.lock says what came from where.
set -eu
LC_ALL=C
export LC_ALL
umask 022

oldest_mongoose=7.22
# Where source packages keep parson, smallest archive first.
parson_sources='slirp4netns:vendor/parson pg-auto-failover:src/bin/lib/parson mesa:src/util'

say() { printf 'setup: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

[ $# -eq 1 ] || die "usage: deps.sh DIRECTORY"
here=$(cd "$(dirname "$0")" && pwd)
pins=$here/deps.sha256
mkdir -p "$1" || die "cannot make the directory '$1'"
dest=$(cd "$1" && pwd)
lock=$dest/deps.lock
work=
child=

# Leave nothing half-made, whatever ends this: the files move into place as the last step.
finish() {
	status=$?
	trap '' INT TERM HUP
	[ -z "$child" ] || kill -9 -- "-$child" 2>/dev/null || kill -9 "$child" 2>/dev/null || :
	[ -z "$child" ] || wait "$child" 2>/dev/null || :
	[ -z "$work" ] || rm -rf "$work"
	rmdir "$dest" 2>/dev/null || :
	exit $status
}
trap finish EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

hash_of() { sha256sum <"$1" | cut -d' ' -f1; }
pinned() { grep -q "^$(hash_of "$2")  $1 " "$pins"; }
unchanged() { [ -f "$dest/$1" ] && grep -qs "^$(hash_of "$dest/$1")  $1 " "$lock"; }
version_of() { # of the pair: mongoose in its header, parson in its head comment
	sed -n -e 's/^#define MG_VERSION "\(.*\)".*/\1/p' \
		-e 's/^ Parson \([0-9.]*\) .*/\1/p' "$1" | head -n 1
}

# check_version LIBRARY HEADER: mongoose below 7.22 can be made to smuggle requests
check_version() {
	[ "$1" = mongoose ] || return 0
	v=$(version_of "$2")
	lower=$(printf '%s\n' "$oldest_mongoose" "${v:-0}" | sort -V | head -n 1)
	[ "$lower" = "$oldest_mongoose" ] ||
		die "mongoose ${v:-of no version} is too old: $oldest_mongoose or later is needed"
}

# stage LIBRARY ORIGIN SOURCE_C SOURCE_H: into the work directory, with their lines for the lock
stage() {
	check_version "$1" "$4"
	cp "$3" "$work/new/$1.c"
	cp "$4" "$work/new/$1.h"
	for f in "$1.c" "$1.h"; do
		printf '%s  %s  %s\n' "$(hash_of "$work/new/$f")" "$f" "$2" >>"$work/lock"
	done
}

make_work() {
	[ -z "$work" ] || return 0
	work=$(mktemp -d "$dest/.new.XXXXXX") || die "cannot write to '$dest'"
	mkdir "$work/new"
	: >"$work/lock"
}

# from_directory LIBRARY DIRECTORY: the user's own files; Debian keeps .c and .h apart
from_directory() {
	c=$2/$1.c h=$2/$1.h
	[ -f "$h" ] || h=$2/../include/$1.h
	[ -f "$c" ] || die "no $1.c in the directory '$2'"
	[ -f "$h" ] || die "no $1.h in the directory '$2'"
	if cmp -s "$c" "$dest/$1.c" && cmp -s "$h" "$dest/$1.h" && unchanged "$1.c" &&
		unchanged "$1.h"; then
		return
	fi
	make_work
	stage "$1" "$2" "$c" "$h"
	say "$1 $(version_of "$h") from $2"
}

# ---- a private apt ----------------------------------------------------------------------------

mirrors_of_this_machine() { # print-uris works without downloaded lists and as any user
	apt-get update --print-uris 2>/dev/null |
		sed -n "s|^'\\(.*\\)/dists/\\([^/']*\\)/InRelease'.*|\\2 \\1|p" |
		awk -v release="${VERSION_CODENAME:-}" '
			$1 == release || $1 ~ /^((old)*stable|testing|unstable|sid|devel)$/ {
				if (!seen[$2]++) print $2
			}'
}

prepare_apt() {
	for c in apt-get apt-config dpkg-deb tar gzip; do
		command -v $c >/dev/null 2>&1 ||
			die "$c not found: set MONGOOSE_DIR and PARSON_DIR to where the sources are"
	done
	ID='' ID_LIKE='' VERSION_CODENAME=''
	# shellcheck source=/dev/null
	[ ! -r /etc/os-release ] || . /etc/os-release
	components=main suites='testing unstable' distribution=debian
	case " $ID $ID_LIKE " in
	*' ubuntu '*)
		components='main universe' suites="$VERSION_CODENAME devel" distribution=ubuntu ;;
	esac
	keyring=/usr/share/keyrings/$distribution-archive-keyring.gpg
	signed=
	[ ! -r "$keyring" ] || signed="[signed-by=$keyring]"
	mirrors=$(mirrors_of_this_machine)
	[ -n "$mirrors" ] ||
		die "apt has no archive configured: set MONGOOSE_DIR and PARSON_DIR instead"
	mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$work/parts"
	: >"$work/status"
	write_apt_conf >"$work/apt.conf"
}

# The machine's transport settings (proxies, certificates) stay, its hooks do not. Expiry is not
# checked: a frozen mirror is as good as any for files whose hash is known.
write_apt_conf() {
	apt-config dump 2>/dev/null |
		grep -E '^Acquire::(http|https|ftp|tor|Proxy|Max-|ForceIPv|Send-URI|By-Hash)' || :
	cat <<-CONF
		Dir::State "$work";
		Dir::State::lists "$work/lists";
		Dir::State::status "$work/status";
		Dir::Cache "$work/cache";
		Dir::Etc::sourcelist "$work/sources.list";
		Dir::Etc::sourceparts "$work/parts";
		Dir::Etc::main "/dev/null";
		Dir::Etc::parts "$work/parts";
		Dir::Etc::preferences "/dev/null";
		Dir::Etc::preferencesparts "$work/parts";
		APT::Sandbox::User "$(id -un)";
		APT::Update::Error-Mode "any";
		Acquire::Check-Valid-Until "false";
		Acquire::AllowInsecureRepositories "false";
		Acquire::Languages "none";
		Acquire::Retries "2";
		Acquire::http::Timeout "30";
		Acquire::https::Timeout "30";
	CONF
}

# In the background, because only wait lets a signal be handled at once; in a group of its own,
# because apt-get has children which would outlive it.
apt() {
	APT_CONFIG=$work/apt.conf setsid apt-get -q "$@" >"$work/log" 2>&1 &
	child=$!
	status=0
	wait "$child" || status=$?
	child=
	return $status
}

enter_empty() { # not in a subshell: apt-get must stay a child of ours to be ended with us
	rm -rf "$1"
	mkdir "$1" && cd "$1"
}

# Remember a file that came but may not be used: it makes the better message.
refused=
usable() { # usable NAME FILE PACKAGE
	[ -s "$2" ] || return 1
	if pinned "$1" "$2"; then return 0; fi
	refused="$1 of the package $3 has the sha256 $(hash_of "$2"), which is not in $pins: \
review the file and add it there, or set MONGOOSE_DIR or PARSON_DIR"
	return 1
}

get_mongoose() {
	enter_empty "$work/get"
	apt download mongoose-webserver-source || return 1
	deb=$(find "$work/get" -name '*.deb' | head -n 1)
	[ -n "$deb" ] && dpkg-deb -x "$deb" "$work/get/x" || return 1
	c=$work/get/x/usr/src/mongoose.c h=$work/get/x/usr/include/mongoose.h
	package="mongoose-webserver-source $(dpkg-deb -f "$deb" Version)"
	usable mongoose.c "$c" "$package" && usable mongoose.h "$h" "$package" || return 1
	stage mongoose "$package" "$c" "$h"
}

# get_parson PACKAGE FOLDER: out of the upstream archive of a source package
get_parson() {
	enter_empty "$work/get"
	apt source --download-only --tar-only "$1" || return 1
	tarball=$(find "$work/get" -name '*.orig.tar.*' ! -name '*.asc' | head -n 1)
	[ -n "$tarball" ] || return 1
	for f in parson.c parson.h; do
		tar -xOf "$tarball" --wildcards --no-wildcards-match-slash "*/$2/$f" \
			>"$work/get/$f" 2>/dev/null || return 1
		usable $f "$work/get/$f" "${tarball##*/}" || return 1
	done
	stage parson "${tarball##*/}" "$work/get/parson.c" "$work/get/parson.h"
}

reached=
fetch() { # fetch what is needed from one suite of one archive
	{
		printf 'deb %s %s %s %s\n' "$signed" "$1" "$2" "$components"
		printf 'deb-src %s %s %s %s\n' "$signed" "$1" "$2" "$components"
	} >"$work/sources.list"
	say "reading the package lists of $2"
	apt update || return 0
	reached=1
	if [ "$need_mongoose" = 1 ]; then
		say "fetching mongoose"
		if get_mongoose; then need_mongoose=0; fi
	fi
	if [ "$need_parson" = 1 ]; then
		say "fetching parson"
		for s in $parson_sources; do
			if get_parson "${s%%:*}" "${s#*:}"; then
				need_parson=0
				break
			fi
		done
	fi
}

fetch_all() {
	for mirror in $mirrors; do
		for suite in $suites; do
			[ "$need_mongoose$need_parson" != 00 ] || return 0
			fetch "$mirror" "$suite"
		done
	done
}

explain() {
	[ -z "$refused" ] || die "$refused"
	[ -n "$reached" ] || die "the archives that apt is configured for cannot be reached; \
set MONGOOSE_DIR and PARSON_DIR to directories with the sources to do without"
	[ "$need_mongoose" = 0 ] ||
		die "no archive that apt is configured for has mongoose-webserver-source; \
set MONGOOSE_DIR to a directory with mongoose.c and mongoose.h, $oldest_mongoose or later"
	die "no archive that apt is configured for has parson's source; \
set PARSON_DIR to a directory with parson.c and parson.h"
}

# ---- what is needed, and its end --------------------------------------------------------------

exec 9<"$dest"
flock 9 2>/dev/null || : # two builds at once: the second finds the first one's files
rm -rf "$dest"/.new.*    # what a kill -9 left: the lock says it is nobody's
need_mongoose=0 need_parson=0
if [ -n "${MONGOOSE_DIR:-}" ]; then
	from_directory mongoose "$MONGOOSE_DIR"
elif ! unchanged mongoose.c || ! unchanged mongoose.h; then
	need_mongoose=1
fi
if [ -n "${PARSON_DIR:-}" ]; then
	from_directory parson "$PARSON_DIR"
elif ! unchanged parson.c || ! unchanged parson.h; then
	need_parson=1
fi

if [ "$need_mongoose$need_parson" != 00 ]; then
	make_work
	prepare_apt
	fetch_all
	[ "$need_mongoose$need_parson" = 00 ] || explain
fi
[ -n "$work" ] || exit 0

# The lock goes first: with it gone or wrong, the next run fetches again.
for f in mongoose.c mongoose.h parson.c parson.h; do
	[ -e "$work/new/$f" ] || grep "  $f  " "$lock" >>"$work/lock"
done
rm -f "$lock"
for f in "$work"/new/*; do
	mv -f "$f" "$dest/"
done
mv -f "$work/lock" "$lock"
say "mongoose $(version_of "$dest/mongoose.h") and parson $(version_of "$dest/parson.h") are in $1"
