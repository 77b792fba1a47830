# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh disable=SC2154
#
# flavours.sh - every target of the Containerfile: built by make, run at every level
#
# The levels, and what stands for them: default is podman's own, which lets user namespaces be made;
# restricted is a pod of Kubernetes' restricted standard, where they cannot; profile is a pod with
# a user namespace, /proc uncovered and the seccomp profile of deploy/kubernetes.

: "${FLAVOURS:=python datascience golang node shell}"
: "${LEVELS:=default restricted profile}"
flavour=
papers=/usr/local/share/doc/sandbox-server

# build_flavour [FLAG...]: buildah's
build_flavour() {
	ways=$(for_apt)
	[ "$mode" != python ] || ways="$ways $(for_pip)"
	make image FLAVOUR="$flavour" BUILDAH="buildah --root $dir/store --runroot $dir/run" \
		IMAGE_FLAGS="--pull-never --isolation chroot $ways $*"
}

# the page's way to other bases: one that says what it is
make_other_base() {
	is_there other-base:1 && return
	echo 'another base' >"$work/other"
	c=$(engine buildah from --pull-never localhost/debian:bookworm-slim)
	engine buildah add -q "$c" "$work/other" /etc/other-base >/dev/null
	engine buildah commit -q --rm "$c" localhost/other-base:1 >/dev/null
}
takes_another_base() {
	flavour=shell mode=shell
	make_other_base && build_flavour --build-arg SHELL_BASE=localhost/other-base:1 || return 1
	found=$(engine podman run --rm --pull never --network none --ulimit nofile=20000:20000 \
		--ulimit nproc=4096:4096 --entrypoint cat localhost/sandbox-server:shell /etc/other-base)
	[ "$found" = 'another base' ]
}

# one wheel as an index: these containers have no network
make_index() {
	mkdir -p "$work/wheels"
	chmod 755 "$work" "$work/wheels"
	python3 - "$work/wheels/greet-1.0-py3-none-any.whl" <<-'END'
		import sys, zipfile
		info = "greet-1.0.dist-info/"
		with zipfile.ZipFile(sys.argv[1], "w") as z:
		    z.writestr("greet.py", "WORD = 'hello'")
		    z.writestr(info + "METADATA", "Metadata-Version: 2.1\nName: greet\nVersion: 1.0\n")
		    z.writestr(info + "WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
		    z.writestr(info + "RECORD", "greet.py,,\n%sMETADATA,,\n%sWHEEL,,\n" % (info, info))
	END
}

# as Kubernetes has it for pods of the restricted standard: no namespaces either
make_restricted() {
	python3 -c 'import json, sys
sys.path.insert(0, "tests/environment")
import containers
json.dump(containers.docker_profile(()), open(sys.argv[1], "w"))' "$work/restricted.json"
}

# start_level LEVEL [OPTION...]: the container FLAVOUR-LEVEL
start_level() {
	level=$1
	shift
	set -- --network none --volume "$work/wheels:/wheels:ro" --env SANDBOX_PYTHON_INDEX=/wheels \
		"$@"
	[ "$level" = default ] || set -- "$@" --cap-drop all --security-opt no-new-privileges \
		--read-only --tmpfs /tmp:rw,exec,mode=1777
	case $level in
	restricted) set -- "$@" --security-opt "seccomp=$work/restricted.json" ;;
	profile) set -- "$@" --uidmap 0:100000:65536 --gidmap 0:100000:65536 \
		--security-opt seccomp=deploy/kubernetes/seccomp/sandbox-server.json ;;
	esac
	start "$flavour-$level" "$@" "localhost/sandbox-server:$flavour"
}

# the level of isolation that each must have: no cgroup is writable in a container
isolation_of() {
	case $1 in
	restricted) echo landlock ;;
	*) echo namespaces ;;
	esac
}

# facts: of the flavour its mode, the version that /health must tell at least, a program that prints
# 42, and one that does not end
facts() {
	mode=$flavour
	case $flavour in
	python | datascience)
		mode=python
		major=3 minor=12 ends='print(6*7)' endless='while True: pass'
		[ "$flavour" = python ] || ends='import pandas, numpy, scipy.stats, sklearn.svm
import matplotlib.pyplot as p
p.plot([1, 2]); p.savefig("x.png")
print(int(numpy.sum(pandas.Series([40, 2]))))'
		;;
	golang)
		major=1 minor=25 endless='package main; func main() { for {} }'
		ends='package main; import "fmt"; func main() { fmt.Println(6*7) }'
		;;
	node)
		major=22 minor=0 ends='console.log(6*7)' endless='for (;;);'
		;;
	shell)
		major=5 minor=0 endless='while :; do :; done'
		ends='git --version >/dev/null && curl --version >/dev/null && echo "a: 42" | yq .a | jq .'
		;;
	*) die "no flavour '$flavour'" ;;
	esac
}

health_says_so() {
	ask /health
	holds "a['status'] == 'healthy' and a['mode'] == '$mode' and
		a['isolation']['level'] == '$(isolation_of "$level")' and tuple(map(int,
		__import__('re').search('([0-9]+)[.]([0-9]+)', a['runtime_version']).groups())) >= ($major, $minor)"
}
program_works() {
	execute "$(code "$ends" '{"timeout_seconds": 110}')" && holds "a['stdout'] == '42\n' and a['exit_code'] == 0 and
		a['meta']['mode'] == '$mode' and a['meta']['isolation'] == '$(isolation_of "$level")'"
}
timeout_works() {
	execute "$(code "$endless" '{"timeout_seconds": 1}')" &&
		holds 'a["exit_code"] == -1 and a["meta"]["verdict"] == "timeout" and
			a["execution_time_ms"] < 2000'
}
# the rest of the runtimes have no index here
packages_work() {
	execute "$(code 'import greet; print(greet.WORD)' '{"requirements": ["greet"]}')" &&
		holds 'a["stdout"] == "hello\n" and a["meta"]["install_ms"] > 0'
}
memory_works() {
	execute "$(code 'x = bytearray(600 << 20)
for i in range(0, len(x), 4096): x[i] = 1')" &&
		holds 'a["meta"]["verdict"] == "out_of_memory" and a["exit_code"] == 137'
}
any_host_works() {
	execute "$(code "$ends")" 'Host: sandbox.default.svc' && holds 'a["exit_code"] == 0'
}
code_is_not_root() {
	execute "$(code 'import os; print(os.getuid(), open("/proc/self/status").read())')" &&
		holds 'a["stdout"].startswith("1000 ") and "CapEff:\t0000000000000000" in a["stdout"]'
}

# ---- what is in an image -----------------------------------------------------------------------

in_it() { engine podman exec "$name" "$@"; }
user_is_sandbox() {
	[ "$(in_it id -un) $(in_it id -u) $(in_it id -g)" = 'sandbox 65532 65532' ]
}
config_is() { # config_is TEMPLATE WANTED
	got=$(engine podman inspect -f "$1" "$name")
	[ "$got" = "$2" ] || { echo "$1: $got"; return 1; }
}
config_is_right() {
	engine podman inspect -f '{{range .Config.Env}}{{println .}}{{end}}' "$name" >"$work/env"
	grep -x HOME=/tmp "$work/env" && grep -x "SANDBOX_MODE=$mode" "$work/env" &&
		engine podman image inspect -f '{{json .Config.ExposedPorts}}' \
			"localhost/sandbox-server:$flavour" | grep -x '{"8080/tcp":{}}'
}
no_setuid() {
	found=$(engine podman exec -u 0 "$name" find / -xdev -type f -perm /6000)
	[ -z "$found" ] || { echo "$found"; return 1; }
}
tmp_is_open() { [ "$(in_it stat -c %a /tmp)" = 1777 ]; }
nothing_of_this_host() { # the mounts of the build are not in the image
	for f in /etc/pip.conf /image.sh; do
		! engine podman exec -u 0 "$name" test -s "$f" || return 1
	done
	! engine podman exec -u 0 "$name" grep -rlis 'registry\|proxy' /etc/apt/apt.conf.d /etc/apt/auth.conf.d
}
papers_are_there() {
	set -- LICENSE LICENSE.parson deps.lock source.tar.gz debian.lock
	[ "$mode" != python ] || set -- "$@" python.lock
	[ "$mode" != node ] || set -- "$@" node.lock
	for f; do
		in_it test -s "$papers/$f" || return 1
	done
	in_it test -s /usr/share/doc/libseccomp2/copyright
	for label in "title sandbox-server" "licenses GPL-2.0-only" "version $(sed -n 's/^VERSION := //p' Makefile)"; do
		config_is "{{index .Config.Labels \"org.opencontainers.image.${label% *}\"}}" \
			"${label#* }" || return 1
	done
}
# the source is all that was built, with the third parties' files that deps.lock and the licences name
papers_are_true() {
	source=$work/source
	rm -rf "$source"
	mkdir "$source"
	in_it cat "$papers/source.tar.gz" | tar -C "$source" -xzf - || return 1
	for f in Makefile LICENSE src policy man; do
		diff -r "$f" "$source/$f" || return 1
	done
	in_it cat "$papers/LICENSE" | cmp - LICENSE || return 1
	in_it cat "$papers/deps.lock" | awk '{ print $1 "  " $2 }' | sort -k 2 >"$work/hashes"
	(cd "$source/build/deps" && sha256sum -- *.c *.h) | sort -k 2 | diff "$work/hashes" - || return 1
	awk '{ print $1 }' "$work/hashes" | while read -r hash; do
		grep "^$hash" src/setup/deps.sha256 || exit 1
	done || return 1
	sed '/\*\//q' "$source/build/deps/parson.h" >"$work/licence"
	grep 'Permission is hereby granted' "$work/licence" &&
		in_it cat "$papers/LICENSE.parson" | cmp - "$work/licence"
}
# each has the tool that installs the others, in its version
locks_are_true() {
	case $mode in
	python) in_it cat "$papers/python.lock" | grep -ix "uv==$(in_it uv --version | cut -d' ' -f2)" ;;
	node) in_it cat "$papers/node.lock" | grep "/npm:npm@$(in_it npm --version)\(:\|$\)" ;;
	esac
}
tools_are_there() {
	case $flavour in
	python | datascience) in_it uv --version ;;
	node) in_it npm --version ;;
	shell) in_it sh -c 'jq --version && yq --version && curl --version && git --version' ;;
	esac
}
ends_on_sigterm() {
	engine podman stop -t 10 "$name" >/dev/null
	config_is '{{.State.ExitCode}}' 0
}
start_masked() {
	name=$flavour-masked
	containers="$containers $name"
	engine podman run -d --pull never --name "$name" --network none --ulimit nofile=20000:20000 \
		--ulimit nproc=4096:4096 "localhost/sandbox-server:$flavour"
}

# ---- the tests ---------------------------------------------------------------------------------

# in the background a server of golang fills its compile cache first, with all processors
cache_is_filled() {
	end=$(($(date +%s) + 400))
	until engine podman logs "$name" 2>&1 | grep 'seed\.done'; do
		[ "$(date +%s)" -lt "$end" ] || return 1
		sleep 1
	done
}

use_level() {
	level=$1
	check "$flavour, $level: a container starts" start_level "$level" || return 1
	check "$flavour, $level: it is healthy within 5 seconds" healthy_soon || {
		engine podman logs "$name" 2>&1 | sed 's/^/# /'
		return 1
	}
	check "$flavour, $level: /health tells mode, version and $(isolation_of "$level")" \
		health_says_so || :
	[ "$flavour" != golang ] ||
		check "$flavour, $level: the compile cache is filled" cache_is_filled || :
	check "$flavour, $level: a program works" program_works || :
	check "$flavour, $level: a timeout works" timeout_works || :
	[ "$mode" != python ] || check "$flavour, $level: packages are installed" packages_work || :
}

# Selftests of a flavour's containers, side by side: they wait more than they work. One that
# failed is tried once more, alone: some cases measure, and the others of them were in the way.
selftests() {
	for level in $LEVELS; do
		selftest &
	done
	wait
	for level in $LEVELS; do
		if grep -q '^selftest ended with' "$work/$level.selftest"; then
			grep '^FAILED\|^beside' "$work/$level.selftest" | sed 's/^/#   at first: /'
			selftest
		fi
		check "$flavour, $level: selftest holds" passes "$work/$level.selftest" || :
		sed -n 's/^all .*/#   &/p' "$work/$level.selftest"
	done
}
selftest() {
	{
		engine podman exec "$flavour-$level" sandbox-server selftest \
			--level "$(isolation_of "$level")" || echo "selftest ended with $?"
	} >"$work/$level.selftest" 2>&1 </dev/null
}
passes() {
	grep -v '^ok \|^pending ' "$1"
	grep -q '^all  .* 0 failed' "$1" && ! grep -q '^selftest ended with' "$1"
}

look_into() {
	name=$flavour-default
	level=default
	check "$flavour: user, port, HOME and mode are set" config_is_right || :
	check "$flavour: the server is sandbox, not root" user_is_sandbox || :
	check "$flavour: no file is setuid or setgid" no_setuid || :
	check "$flavour: everybody may write to /tmp" tmp_is_open || :
	check "$flavour: its tools run" tools_are_there || :
	check "$flavour: nothing of this host's configuration is in it" nothing_of_this_host || :
	check "$flavour: licences, labels, locks and source are in it" papers_are_there || :
	check "$flavour: source and licences are those of what was built" papers_are_true || :
	check "$flavour: the locks name what is there" locks_are_true || :
	[ "$flavour" = python ] || return 0
	check 'python: a memory bomb is stopped' memory_works || :
	check 'python: any Host is answered' any_host_works || :
	check 'python: code has uid 1000 and no capability' code_is_not_root || :
	check 'python: a container with a masked /proc starts' start_masked || return 0
	check 'python: it is healthy within 5 seconds' healthy_soon || :
	check 'python: a program works in it, too' program_works || :
}

use_flavour() {
	flavour=$1
	facts
	say "$flavour: building"
	check "$flavour: the Containerfile builds" build_flavour || return 0
	for level in $LEVELS; do
		use_level "$level" || return 0
	done
	look_into
	say "$flavour: selftest at each level (a minute or two)"
	selftests
	for level in $LEVELS; do
		name=$flavour-$level
		check "$flavour, $level: SIGTERM ends it with 0" ends_on_sigterm || :
	done
}

# a base that is too old is refused before anything is installed
refuses_old_go() {
	engine podman run --rm --pull never --network none --ulimit nofile=20000:20000 \
		--ulimit nproc=4096:4096 --volume "$PWD/src/setup/image.sh:/image.sh:ro" \
		localhost/debian:bookworm-slim bash -c 'go() { echo go version go1.24.9 linux/amd64; }
			export -f go; bash /image.sh golang' 2>&1 | tee "$work/refused"
	grep -x 'image: the base has go 1.24.9; 1.25 or later is needed' "$work/refused"
}

part_flavours() {
	bases
	make_index
	make_restricted
	check 'a base with a Go that is too old is refused' refuses_old_go || :
	check 'another base is taken by build argument' takes_another_base || :
	for one in $FLAVOURS; do
		use_flavour "$one"
	done
}
