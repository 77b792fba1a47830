# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh disable=SC2154
#
# common.sh - what the parts of tests/image/run share: checks, an engine, base images, requests
#
# $dir is where stores and bases are kept, $work a directory of this run.

say() { printf 'image: %s\n' "$*" >&2; }

die() {
	say "$*"
	exit 1
}

# check TITLE COMMAND...: one test; what it printed is shown when it fails
check() {
	title=$1
	shift
	if "$@" >"$work/out" 2>&1 </dev/null; then
		passed=$((passed + 1))
		printf 'ok - %s\n' "$title"
	else
		failed=$((failed + 1))
		printf 'not ok - %s\n' "$title"
		tail -n 40 "$work/out" | sed 's/^/# /'
		return 1
	fi
}

# quietly COMMAND...: the end of what it printed is shown when it fails
quietly() {
	"$@" >"$work/log" 2>&1 </dev/null && return
	status=$?
	tail -n 40 "$work/log" | sed 's/^/# /'
	return $status
}

# engine podman|buildah ARGUMENT...: with a store of our own; crun does not know every cgroup
# layout that runc knows
engine() {
	tool=$1
	shift
	if [ "$tool" = podman ]; then
		podman --root "$dir/store" --runroot "$dir/run" --runtime runc \
			--cgroup-manager cgroupfs --events-backend file "$@"
	else
		buildah --root "$dir/store" --runroot "$dir/run" "$@"
	fi
}

# start NAME OPTION... IMAGE [COMMAND...]: a container that may make user namespaces and mount
# a private /proc. Limits are given, for who may not raise them.
start() {
	name=$1
	shift
	engine podman rm -f -t 0 "$name" >/dev/null 2>&1 || :
	containers="$containers $name"
	engine podman run -d --pull never --name "$name" --security-opt unmask=ALL \
		--ulimit nofile=20000:20000 --ulimit nproc=4096:4096 "$@"
}

# ---- base images -------------------------------------------------------------------------------

mirror_of_this_machine() { # as src/setup/deps.sh finds it
	VERSION_CODENAME=''
	# shellcheck source=/dev/null
	. /etc/os-release
	apt-get update --print-uris 2>/dev/null |
		sed -n "s|^'\\(.*\\)/dists/$VERSION_CODENAME/InRelease'.*|\\1|p" | head -n 1
}

# is_there IMAGE...
is_there() {
	for i; do
		engine podman image exists "localhost/$i" || return 1
	done
}

# base NAME TAG SUITE PACKAGES: the image localhost/TAG
base() {
	root=$dir/rootfs/$1
	if [ ! -e "$root.ready" ]; then
		mirror=$(mirror_of_this_machine)
		[ -n "$mirror" ] || die 'apt has no archive of this release configured'
		say "debootstrap of $3, for $2 (a minute or two)"
		rm -rf "$root"
		mkdir -p "$root"
		quietly debootstrap --variant=minbase ${4:+"--include=$4"} "$3" "$root" "$mirror" ||
			die "debootstrap of $3 failed"
		rm -f "$root"/var/cache/apt/archives/*.deb
		# the official image's Python is nobody's but pip's
		rm -f "$root"/usr/lib/python3*/EXTERNALLY-MANAGED
		# Debian 11 stands for whatever image the static binary is put into
		[ "$1" != old ] || rm -f "$root"/usr/lib/*/libseccomp.so* "$root"/usr/lib/*/libcap.so*
		: >"$root.ready"
	fi
	if is_there "$2"; then return; fi
	say "making localhost/$2"
	c=$(engine buildah from scratch)
	engine buildah add -q "$c" "$root" / >/dev/null
	engine buildah config --cmd /bin/bash \
		--env PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$c"
	engine buildah commit -q --rm "$c" "localhost/$2" >/dev/null
}

# base_with TAG DIRECTORY PATH: the Debian with DIRECTORY as PATH, and its programs on PATH
base_with() {
	say "making localhost/$1"
	c=$(engine buildah from --pull-never localhost/debian:bookworm-slim)
	engine buildah add -q "$c" "$2" "$3" >/dev/null
	engine buildah config \
		--env "PATH=$3/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" "$c"
	engine buildah commit -q --rm "$c" "localhost/$1" >/dev/null
}

# the Go of this host, or one that its module proxy has, when that is too old
go_root() {
	case $(go env GOVERSION 2>/dev/null) in
	go1.2[5-9]* | go1.[3-9][0-9]*) go env GOROOT ;;
	*) GOTOOLCHAIN=local GOFLAGS=-mod=mod go mod download -json \
		golang.org/toolchain@v0.0.1-go1.25.0.linux-amd64 |
		sed -n 's/^[[:space:]]*"Dir": "\(.*\)".*/\1/p' ;;
	esac
}

node_tree() { # as the official image has it below /usr/local
	quietly npm install --no-audit --no-fund --prefix "$work/npm" node@22 npm@10 ||
		die 'node 22 cannot be had from npm'
	mkdir -p "$work/node/bin" "$work/node/lib/node_modules"
	cp "$work/npm/node_modules/node/bin/node" "$work/node/bin/"
	cp -r "$work/npm/node_modules/npm" "$work/node/lib/node_modules/"
	ln -s ../lib/node_modules/npm/bin/npm-cli.js "$work/node/bin/npm"
}

# Stand-ins for the official images, by their names: Debian 12, and a Debian with a Python of 3.12
# or later; Go and Node of this host's registries.
bases() {
	base debian debian:bookworm-slim bookworm ''
	base python python:3.12-slim-bookworm trixie python3,python3-pip
	is_there golang:1.25-bookworm || {
		root=$(go_root)
		[ -x "$root/bin/go" ] || die 'Go 1.25 cannot be had'
		base_with golang:1.25-bookworm "$root" /usr/local/go
	}
	is_there node:22-bookworm-slim || {
		node_tree
		base_with node:22-bookworm-slim "$work/node" /usr/local
	}
}

# This machine's way to its package registries, read-only; nothing of it stays in an image.
# volumes FILE...: those that are there
volumes() {
	for f; do
		[ ! -e "$f" ] || printf ' --volume %s:%s:ro' "$f" "$f"
	done
}
for_apt() {
	volumes /etc/apt/apt.conf.d/*proxy* /etc/apt/apt.conf.d/*registry* /etc/apt/auth.conf.d
}
for_pip() { volumes /etc/pip.conf /etc/ssl/certs; }
for_npm() { # beside what the container installs at the usual place
	[ ! -e /etc/ssl/certs/ca-certificates.crt ] || printf ' --volume %s:%s:ro --env %s' \
		/etc/ssl/certs/ca-certificates.crt /etc/npm-ca.crt NPM_CONFIG_CAFILE=/etc/npm-ca.crt
}

# ---- requests ----------------------------------------------------------------------------------

# the network of the container that is spoken to, which is $name; the host's curl
in_network() { nsenter -t "$(engine podman inspect -f '{{.State.Pid}}' "$name")" -n "$@"; }
ask() { in_network curl -sS -m 20 "http://127.0.0.1:8080$1" | tee "$work/answer"; }
execute() {
	in_network curl -sS -m 120 http://127.0.0.1:8080/execute -H "${2:-X-None: none}" \
		-H 'Content-Type: application/json' -d "$1" | tee "$work/answer"
}
# code PROGRAM [MEMBERS]: a request
code() {
	python3 -c 'import json, sys
print(json.dumps({"code": sys.argv[1]} | json.loads(sys.argv[2])))' "$1" "${2:-{\}}"
}
# holds EXPRESSION: of the last answer, as `a` in Python
holds() {
	python3 -c '
import json, sys
a = json.load(open(sys.argv[1]))
print(a)
sys.exit(not eval("(" + sys.argv[2] + ")"))' "$work/answer" "$1"
}

healthy_soon() {
	end=$(($(date +%s) + 5))
	while ! engine podman healthcheck run "$name"; do
		[ "$(date +%s)" -lt "$end" ] || return 1
		sleep 0.1
	done
}
