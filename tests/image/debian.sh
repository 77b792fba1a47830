# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh disable=SC2154
#
# debian.sh - the README's commands on a bare Debian 12

export_tree() {
	mkdir -p "$work/tree"
	git ls-files -z | tar --null -T - -cf - | tar -xf - -C "$work/tree"
}
in_debian() { engine podman exec "$@"; }
# serve USER DIRECTORY PORT: `make run` until it answers, one request, SIGTERM
serve() {
	in_debian -d -u "$1" -w "$2" -e "SANDBOX_PORT=$3" debian \
		sh -c 'make run >run.log 2>&1; echo "status $?" >>run.log'
	end=$(($(date +%s) + 600))
	while ! curl -sf -m 5 "http://127.0.0.1:$3/readyz" >/dev/null; do
		if in_debian debian grep '^status' "$2/run.log" || [ "$(date +%s)" -gt "$end" ]; then
			in_debian debian tail -n 30 "$2/run.log"
			return 1
		fi
		sleep 1
	done
	curl -sS -m 20 "http://127.0.0.1:$3/health"
	curl -sS -m 20 "http://127.0.0.1:$3/execute" -H 'Content-Type: application/json' \
		-d '{"code":"print(6*7)"}' | tee "$work/answer"
	holds 'a["stdout"] == "42\n" and a["exit_code"] == 0' || return 1
	first=$(in_debian debian sh -c 'cat /proc/[0-9]*/stat' |
		sed -n 's/^\([0-9]*\) (sandbox-server).*/\1/p' | sort -n | head -n 1)
	in_debian debian sh -c "kill -TERM $first"
	end=$(($(date +%s) + 10))
	while ! in_debian debian grep '^status' "$2/run.log"; do
		[ "$(date +%s)" -le "$end" ] || return 1
		sleep 0.2
	done
	in_debian debian grep -x 'status 0' "$2/run.log" || {
		in_debian debian tail -n 30 "$2/run.log"
		return 1
	}
}
install_two() { in_debian debian sh -c 'apt-get update && apt-get install -y make git'; }
free_port() {
	python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}
start_debian() {
	# shellcheck disable=SC2046 # words
	start debian --network host $(for_apt) $(for_npm) --env "MAKEFLAGS=-j$(nproc)" --volume "$work/tree:/tree:ro" \
		localhost/debian:bookworm-slim bash -c 'while :; do sleep 1000; done'
}
copy_tree() { # for root, and for a plain user
	in_debian debian sh -c 'cp -r /tree /root/sandbox-server && useradd -m -d /srv/person person &&
		cp -r /tree /srv/person/sandbox-server && chown -R person: /srv/person'
}
in_tree() { # in_tree USER DIRECTORY COMMAND...
	user=$1
	at=$2
	shift 2
	in_debian -u "$user" -w "$at/sandbox-server" debian "$@"
}

# follow: a copy of what is read, its progress on the terminal
follow() {
	while IFS= read -r line; do
		printf '%s\n' "$line"
		case $line in
		'== '* | 'setup: installing '* | [0-9]*' passed, '*) say "  $line" 2>&3 ;;
		esac
	done
}
# test_tree USER DIRECTORY: `make test`, every suite; what cannot run in a container may skip
test_tree() {
	{
		in_tree "$1" "$2" make test TESTS_MUST_RUN=0 2>&1
		echo "make ended with $?"
	} | follow | tee "$work/tested"
	grep -qx 'make ended with 0' "$work/tested"
}
# skipped_for REASONS [SUITE...]: of test_tree every suite passed tests, but for these SUITEs,
# which may have skipped all; and nothing was skipped but for REASONS, one a line
skipped_for() {
	printf '%s\n' "$1" >"$work/reasons"
	shift
	suites=$(sed -n 's/^SUITES := //p' Makefile)
	[ -n "$suites" ] || return 1
	for suite in $suites; do
		some='[1-9][0-9]* passed, 0 failed'
		case " $* " in
		*" $suite "*) some="($some|0 passed, 0 failed, [1-9][0-9]* skipped)" ;;
		esac
		grep -qE "^== $suite: ${some}[ ,]" "$work/tested" || {
			echo "$suite did not run"
			return 1
		}
	done
	! sed -n 's/^SKIPPED \[[0-9]*\] [^ ]*: //p' "$work/tested" | grep -v -F -f "$work/reasons"
}
# what failed, what was skipped by reason, and how many passed, suite by suite
tell_counts() {
	grep -E '^(FAILED|ERROR|==.* passed|[0-9]+ passed)' "$work/tested" | sed 's/^/# /'
	sed -n 's/^SKIPPED \[\([0-9]*\)\] [^ ]*: \(.\{1,80\}\).*/\1 \2/p' "$work/tested" |
		awk '{ n = $1; sub(/^[0-9]* /, ""); skipped[$0] += n }
			END { for (why in skipped) print "# skipped " skipped[why] ": " why }' | sort
}

in_a_container='the cgroup file system is mounted read-only
needs CAP_SYS_PTRACE
needs CAP_SYS_ADMIN
without CAP_SYS_ADMIN all runs have one uid
there is no cgroup to be taken away
a filter around this one answers first
no sandbox waits here
runc cannot make a container here'
as_a_plain_user='needs root
only root
traced by root only
a plain user lacks layers of his own accord'

part_debian() {
	base debian debian:bookworm-slim bookworm ''
	export_tree
	check 'a bare Debian 12 starts' start_debian || return 0
	say 'apt-get install make git'
	check 'apt-get install make git' install_two || return 0
	check 'the tree is there' copy_tree || return 0
	say 'make run, as root: installs, builds, serves (minutes)'
	check 'make run as root serves and ends with 0' serve root /root/sandbox-server \
		"$(free_port)" || return 0
	check 'check as root finds at least namespaces' \
		in_tree root /root build/release/sandbox-server check || :
	in_tree root /root build/release/sandbox-server check 2>&1 | sed 's/^/# /' || :
	say 'make run, as a plain user'
	check 'make run as a plain user serves and ends with 0' \
		serve person /srv/person/sandbox-server "$(free_port)" || :
	check 'check as a plain user finds at least namespaces' \
		in_tree person /srv/person build/release/sandbox-server check || :
	say 'make test, as root: installs what tests need, runs every suite (ten minutes or more)'
	check 'make test as root' test_tree root /root || :
	tell_counts
	check 'every suite ran; what it skipped cannot run in a container' \
		skipped_for "$in_a_container" environment faults || :
	say 'make test, as a plain user (minutes)'
	check 'make test as a plain user' test_tree person /srv/person || :
	tell_counts
	check 'every suite ran; what it skipped cannot run in a container, or needs root' \
		skipped_for "$in_a_container
$as_a_plain_user" environment faults || :
}
