#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# deb.sh - a Debian package of what was built; prints nothing but its path
#
# usage: deb.sh VERSION BUILD_DIRECTORY      from the top of the tree; `make deb` calls it
# environment: DEBFULLNAME, DEBEMAIL   whose package it is
#
# deploy/debian has what is Debian's; the rest is put there by `make install`. The date of the
# package is that of the last commit, or SOURCE_DATE_EPOCH: the same tree makes the same package.
set -eu
LC_ALL=C
export LC_ALL
umask 022

die() {
	printf 'deb: %s\n' "$*" >&2
	exit 1
}

[ $# -eq 2 ] || die 'usage: deb.sh VERSION BUILD_DIRECTORY'
version=$1
[ -f deploy/debian/control ] || die 'start it from the top of the tree'
TREE=$(pwd)
mkdir -p "$2/deb"
build=$(cd "$2" && pwd)
lock=$build/deps/deps.lock
[ -f "$lock" ] || lock=build/deps/deps.lock
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y Makefile)}
export TREE SOURCE_DATE_EPOCH
maintainer="${DEBFULLNAME:-whoever ran make deb} <${DEBEMAIL:-nobody@sandbox-server.invalid}>"

work=$build/deb/sandbox-server
rm -rf "$work"
mkdir -p "$work"
cp -r deploy/debian "$work/debian"
sed -i "s|@MAINTAINER@|$maintainer|" "$work/debian/control"
cp deploy/systemd/sysusers.conf "$work/debian/sandbox-server.sysusers"
cp CHANGELOG.md deploy/systemd/README.md "$work/"
[ ! -f "$lock" ] || cp "$lock" "$work/deps.lock"
cat >"$work/debian/changelog" <<END
sandbox-server ($version-1) unstable; urgency=medium

  * As CHANGELOG.md tells.

 -- $maintainer  $(date -R -u -d "@$SOURCE_DATE_EPOCH")
END

# what is missing was installed by packages.sh, maybe from elsewhere than Debian
(cd "$work" && dpkg-buildpackage -b -d -us -uc) >"$build/deb/log" 2>&1 || {
	tail -n 30 "$build/deb/log" >&2
	die "dpkg-buildpackage failed; all of it is in $build/deb/log"
}
for f in "$build/deb/sandbox-server_$version-1_"*.deb; do
	mv "$f" "$build/"
	echo "$build/${f##*/}"
done
