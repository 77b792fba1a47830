# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh disable=SC2154
#
# chroot.sh - no sandbox can be made in a chroot, and that is said

chroot_says_so() {
	status=0
	chroot "$dir/rootfs/debian" /usr/local/sbin/sandbox-server check >"$work/said" 2>&1 ||
		status=$?
	[ "$status" = 1 ]
}

part_chroot() {
	base debian debian:bookworm-slim bookworm ''
	quietly make all || die 'make all failed'
	mkdir -p "$dir/rootfs/debian/usr/local/sbin"
	cp build/release/sandbox-server "$dir/rootfs/debian/usr/local/sbin/"
	check 'check exits 1 in a chroot' chroot_says_so || :
	sed 's/^/# /' "$work/said"
	check 'and says why' grep -F 'user namespaces refused: running in a chroot' "$work/said" || :
	rm -f "$dir/rootfs/debian/usr/local/sbin/sandbox-server"
}
