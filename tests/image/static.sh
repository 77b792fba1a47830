# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh disable=SC2154
#
# static.sh - the binary without shared libraries, mounted into images that know nothing of us
#
# One has bash and no other file, not even a C library. The other is Debian 11 without libseccomp
# and libcap: its C library is older than what we are built with, so that no started python can
# wait there, and what needs that says so.

no_libraries() { # nobody loads it, and nothing is left for a loader to find
	! readelf -l build/static/sandbox-server | grep INTERP &&
		! readelf -d build/static/sandbox-server | grep NEEDED
}

bare_base() {
	if is_there bare; then return; fi
	say 'making localhost/bare'
	(cd "$work" && quietly apt-get download bash-static && dpkg-deb -x bash-static_*.deb x) ||
		die 'bash-static cannot be had'
	mkdir -p "$work/bare/usr/bin" "$work/bare/tmp"
	chmod 1777 "$work/bare/tmp"
	ln -s usr/bin "$work/bare/bin"
	cp "$work/x/bin/bash-static" "$work/bare/usr/bin/bash"
	c=$(engine buildah from scratch)
	engine buildah add -q "$c" "$work/bare" / >/dev/null
	engine buildah config --env PATH=/usr/bin "$c"
	engine buildah commit -q --rm "$c" localhost/bare >/dev/null
}

old_base() {
	base old old bullseye python3
	name=old
	engine podman run --rm --pull never --network none --ulimit nofile=20000:20000 \
		--ulimit nproc=4096:4096 localhost/old bash -c \
		'! ls /usr/lib/*/libseccomp* /usr/lib/*/libcap.so* 2>/dev/null'
}

# start_static IMAGE [OPTION...]: `serve` in it
start_static() {
	image=$1
	shift
	start "static-$image" --network none --user 65532:65532 --env HOME=/tmp \
		--volume "$PWD/build/static/sandbox-server:/sandbox-server:ro" \
		--health-cmd '["/sandbox-server", "ready"]' --health-interval disable \
		"$@" "localhost/$image" /sandbox-server serve
}
prints_42() { # PROGRAM MODE LEVEL
	execute "$(code "$1")" && holds "a['stdout'] == '42\n' and a['exit_code'] == 0 and
		a['meta']['mode'] == '$2' and a['meta']['isolation'] == '$3'"
}
in_static() { engine podman exec "$name" /sandbox-server "$@"; }
selftest_holds() {
	in_static selftest --level "$1" --case NS,FS,PR,SY | grep -v '^ok\|^pending' | tee "$work/said"
	grep '^all .* 0 failed' "$work/said"
}
ends_saying() { # WORDS: the container is over, and that is why
	end=$(($(date +%s) + 20))
	while [ "$(engine podman inspect -f '{{.State.Running}}' "$name")" = true ]; do
		[ "$(date +%s)" -lt "$end" ] || return 1
		sleep 0.2
	done
	engine podman logs "$name" 2>&1 | tee "$work/said"
	grep -F "$1" "$work/said"
}

use_bare() {
	check 'static: it serves in an image that has bash and nothing else' start_static bare || return 0
	check 'static: it is healthy within 5 seconds' healthy_soon || return 0
	check 'static: bash runs there' prints_42 'echo 42' shell namespaces || :
	check 'static: check finds namespaces' in_static check || :
}

use_old() {
	check 'static: it serves in Debian 11, without libseccomp and libcap' start_static old || return 0
	check 'static: it is healthy within 5 seconds' healthy_soon || return 0
	check 'static: python runs there' prints_42 'print(6*7)' python namespaces || :
	check 'static: selftest holds' selftest_holds namespaces || :
	check 'static: as root with all rights it serves at the level full' \
		start_static old --privileged --user 0 || return 0
	check 'static: it is healthy within 5 seconds' healthy_soon || return 0
	check 'static: python runs there, with none that waits' prints_42 'print(6*7)' python full || :
	check 'static: modules that no waiting python can import are refused' \
		start_static old --privileged --user 0 --env SANDBOX_PRELOAD=json || return 0
	check 'static: with the reason' ends_saying 'SANDBOX_PRELOAD=json' || :
}

# on this host, whose C library is new enough
on_this_host() {
	SANDBOX_SERVER=$PWD/build/static/sandbox-server PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 \
		-m pytest -q -p no:cacheprovider --timeout 120 "$@"
}

part_static() {
	src/setup/packages.sh test || die 'packages are missing'
	quietly make static || die 'make static failed'
	check 'static: it needs no shared library' no_libraries || :
	bare_base
	check 'static: a Debian 11 without our libraries' old_base || return 0
	use_bare
	use_old
	say 'names, forked and started pythons, on this host'
	check 'static: names are resolved for runs with network' on_this_host \
		tests/api/test_network.py -k 'what_is_listed or resolved_once or never_asked' || :
	check 'static: modules are imported ahead' on_this_host tests/api/test_preload.py \
		-k 'are_there_and_work' || :
	check 'static: pythons are forked' on_this_host tests/api/test_fork.py \
		-k 'namespaces_of_its_own or nothing_is_left' || :
}
