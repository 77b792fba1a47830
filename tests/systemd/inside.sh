#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# inside.sh - what is tested in the machine that `run` booted
#
# usage: inside.sh      as root, in a directory with the packages and README.md
#
# What an operator types is read from README.md, section by section; then it is seen whether that
# did what the page says.
set -u
LC_ALL=C
DEBIAN_FRONTEND=noninteractive
APT_CONFIG=/run/apt.conf
export LC_ALL DEBIAN_FRONTEND APT_CONFIG
echo 'APT::Get::Assume-Yes "true";' >$APT_CONFIG

url=http://127.0.0.1:8080
cgroup=/sys/fs/cgroup/system.slice/sandbox-server.service
passed=0
failed=0
out=/run/out

# check TITLE COMMAND...: one test; what it printed is shown when it fails
check() {
	title=$1
	shift
	if "$@" >$out 2>&1 </dev/null; then
		passed=$((passed + 1))
		echo "ok - $title"
	else
		failed=$((failed + 1))
		echo "not ok - $title"
		tail -n 30 $out | sed 's/^/# /'
	fi
}

# page SECTION: the commands of that section, in its order; the first that fails ends it
page() {
	awk -v section="## $1" '
		/^## / { here = $0 == section }
		here && /^    / { print substr($0, 5) }' README.md >/run/commands
	[ -s /run/commands ] || {
		echo "README.md has no commands in '$1'"
		return 1
	}
	sh -e -x /run/commands
}

# seconds for what takes one on a real machine
wait_for() {
	tries=0
	until "$@"; do
		tries=$((tries + 1))
		[ $tries -lt 150 ] || return 1
		sleep 0.2
	done
}

show() { systemctl show -P "$1" sandbox-server.service; }
is_active() { [ "$(show ActiveState)" = active ]; }

# ask PATH [OPTION...], execute CODE [MEMBERS [OPTION...]]: the status in $status
ask() {
	path=$1
	shift
	status=$(curl -s -m 60 -o /run/answer -w '%{http_code}' "$@" "$url$path")
	printf '%s %s\n' "$status" "$(cat /run/answer)"
}
execute() {
	code=$1 members=${2-}
	shift $(($# > 2 ? 2 : $#))
	ask /execute -H 'Content-Type: application/json' -d "{\"code\":\"$code\"$members}" "$@"
}
# holds EXPRESSION: jq's, of the last answer
holds() { jq -e "$1" /run/answer >/dev/null; }

# ---- the service -------------------------------------------------------------------------------

level_is_full() { ask /health && holds '.isolation.level == "full" and .mode == "python"'; }
every_layer() { ask /isolation && holds '[.layers[] | select(.requested and (.active | not))] == []'; }
runs() { execute 'print(6*7)' && holds '.stdout == "42\n" and .meta.isolation == "full"'; }
times_out() {
	execute 'while True: pass' ',"timeout_seconds":2' &&
		holds '.meta.verdict == "timeout" and .exit_code == -1 and .execution_time_ms < 6000'
}
runs_out_of_memory() {
	execute 'x = bytearray(300 << 20)' ',"limits":{"memory_mb":64}' &&
		holds '.meta.verdict == "out_of_memory"' && is_active
}
passes_files() {
	execute "open('output/n', 'w').write(open('in').read().upper())" \
		',"files":{"in":"aGVsbG8="}' && holds '.files_produced.n == "SEVMTE8="'
}
tells_violations() {
	execute 'import socket\nsocket.socket()' &&
		holds '.meta.violations[0].syscall == "socket"'
}
# every process of the service: its user, no capability, no_new_privs
has_no_rights() {
	uid=$(id -u sandbox-server)
	seen=0
	# shellcheck disable=SC2044 # names without blanks
	for f in $(find $cgroup -name cgroup.procs); do
		while read -r pid; do
			[ -r "/proc/$pid/status" ] || continue
			seen=$((seen + 1))
			awk -v uid="$uid" '
				/^Name:/ { name = $2 }
				/^Uid:/ && $2 != uid { bad = bad " uid " $2 }
				/^NoNewPrivs:/ && $2 != 1 { bad = bad " no_new_privs" }
				/^Seccomp:/ && $2 != 2 { bad = bad " seccomp" }
				/^CapBnd:/ { bounding = $2 }
				/^CapEff:/ { effective = $2 }
				END {
					print name, bounding, effective, bad
					exit bad != ""
				}' "/proc/$pid/status" || return 1
		done <"$f"
	done
	grep -q '^CapBnd:[[:space:]]*0*$' "/proc/$(show MainPID)/status" || return 1
	[ "$seen" -ge 3 ]
}
nothing_is_left() {
	! pgrep -u sandbox-server && ! pgrep -f sandbox-server\ serve && [ ! -d $cgroup ]
}
status_is_fine() {
	systemctl --no-pager status sandbox-server && ! systemctl is-failed sandbox-server
}

installs() { page Install && is_active && systemctl is-enabled sandbox-server; }

restarts() {
	before=$(show MainPID)
	page Configure || return 1
	is_active && [ "$(show MainPID)" != "$before" ] && ask /health && holds '.capacity == 2'
}

# a run that is under way when the service is told to stop
stops_gently() {
	execute 'import time; print(1, flush=True); time.sleep(4); print(2)' >/run/slow 2>&1 &
	slow=$!
	wait_for running || return 1
	systemctl stop sandbox-server
	wait $slow
	cat /run/slow
	grep -q '^200 .*"stdout":"1\\n2\\n"' /run/slow && [ "$(show Result)" = success ]
}
running() { ask /metrics >/dev/null && grep -q '^sandbox_runs_in_flight [1-9]' /run/answer; }

comes_back() {
	before=$(show MainPID)
	kill -KILL "$before"
	wait_for is_another "$before" && wait_for is_active && runs
}
is_another() { [ "$(show MainPID)" != "$1" ] && [ "$(show MainPID)" != 0 ]; }

# ---- tokens ------------------------------------------------------------------------------------

token() { printf 'Authorization: Bearer %s' "$(head -n 1 "/root/$1.token")"; }
wants_a_token() {
	page Tokens && is_active || return 1
	execute 'print(1)'
	[ "$status" = 401 ] || return 1
	execute 'print(1)' '' -H "$(token laptop)"
	[ "$status" = 200 ]
}
takes_another() {
	before=$(show MainPID)
	page 'Another token' || return 1
	execute 'print(1)' '' -H "$(token ci)"
	[ "$status" = 200 ] && [ "$(show MainPID)" = "$before" ] && is_active
}
keeps_the_old_ones() {
	echo 'no line of tokens' >>/etc/sandbox-server.tokens
	systemctl reload sandbox-server || return 1
	execute 'print(1)' '' -H "$(token ci)"
	sed -i '$d' /etc/sandbox-server.tokens
	[ "$status" = 200 ] && is_active && journalctl -u sandbox-server | grep tokens.refused
}

# ---- the rest of the page ----------------------------------------------------------------------

logs() { page Logs && grep -q 'server.listening.*isolation=full' $out; }

starts_on_demand() {
	page 'On demand' && [ "$(show ActiveState)" = inactive ] || return 1
	execute 'print(6*7)' '' -H "$(token ci)" && holds '.stdout == "42\n"' && is_active
}
# a client that connects while there is no server
waits_for_a_restart() {
	systemctl restart sandbox-server &
	execute 'print(6*7)' '' -H "$(token ci)" && holds '.stdout == "42\n"' || return 1
	wait
	is_active
}
stops_listening() {
	systemctl disable -q --now sandbox-server.socket
	systemctl stop sandbox-server && nothing_is_left
}

upgrades() {
	systemctl enable -q --now sandbox-server
	before=$(show MainPID)
	rm -f sandbox-server_*.deb
	mv later.deb sandbox-server_later.deb
	page Upgrade && is_active && [ "$(show MainPID)" != "$before" ] || return 1
	dpkg-query -W sandbox-server | grep later && grep MAX_CONCURRENT=2 /etc/sandbox-server.conf
}

has_a_uid_each() {
	page 'As root' && is_active || return 1
	execute 'import os; print(open(\"/proc/self/uid_map\").read().split())' '' \
		-H "$(token ci)" && holds '.stdout | contains("6000")' || return 1
	ask /health && holds '.isolation.level == "full" and .state_directory == null'
}
has_sessions() {
	ask /sessions -H "$(token ci)" -H 'Content-Type: application/json' -d '{"scope":"test"}'
	[ "$status" = 200 ] || [ "$status" = 201 ]
}
# root with ten capabilities, for two processes; nobody else has any
has_few_rights() {
	# shellcheck disable=SC2044 # names without blanks
	for f in $(find $cgroup -name cgroup.procs); do
		while read -r pid; do
			grep -H -e ^Uid: -e ^CapEff: -e ^CapBnd: -e ^Name: "/proc/$pid/status"
		done <"$f"
	done
	pgrep -x -u 599999 sandbox-http &&
		grep -q '^CapEff:[[:space:]]*0*$' "/proc/$(pgrep -x -u 599999 sandbox-http)/status"
}

# with the socket, which must not bring it back
uninstalls() {
	page 'On demand' || return 1
	execute 'print(1)' >/dev/null && is_active || return 1
	awk '/^## Uninstall/ { here = 1 } here && /^    apt-get remove/ { print substr($0, 5) }' \
		README.md >/run/commands
	sh -e -x /run/commands && nothing_is_left && ! curl -s $url && [ -f /etc/sandbox-server.conf ] &&
		[ ! -e /usr/sbin/sandbox-server ]
}
purges() {
	page Uninstall && [ ! -e /etc/sandbox-server.conf ] && [ ! -e /var/lib/sandbox-server ] &&
		[ ! -e /lib/systemd/system/sandbox-server.service ] &&
		! systemctl is-enabled sandbox-server.service
}

echo "kernel $(uname -r), $(systemctl --version | head -n 1), up $(cut -d. -f1 /proc/uptime) s"
check 'Install: the package installs, the service is active and enabled' installs
check 'the level is full' level_is_full
check 'every layer that was asked for is active' every_layer
check 'a program runs' runs
check 'one without an end times out' times_out
check 'one that is out of memory is killed, and the service lives' runs_out_of_memory
check 'files go in and come out' passes_files
check 'refused calls are told' tells_violations
check 'nobody in the service has any right' has_no_rights
check 'systemctl status' status_is_fine
check 'the units are well-formed' systemd-analyze verify --man=no sandbox-server.service sandbox-server.socket
systemd-analyze --no-pager security sandbox-server.service | tail -n 1
check 'Configure: settings are taken by a restart' restarts
# an emulated processor has better things to do than to have pythons wait
echo SANDBOX_WARM=0 >>/etc/sandbox-server.conf
check 'a killed server comes back' comes_back
check 'systemctl stop waits for what runs' stops_gently
check 'no process and no cgroup is left' nothing_is_left
check 'it starts again' systemctl start sandbox-server
check 'Tokens: clients need one' wants_a_token
check 'Another token: taken by a reload' takes_another
check 'a file that is no good changes nothing' keeps_the_old_ones
check 'Logs: the journal has them' logs
check 'On demand: the first client starts it' starts_on_demand
check 'clients wait while it is restarted' waits_for_a_restart
check 'socket and service stop, and nothing is left' stops_listening
check 'Upgrade: the later version serves, settings stay' upgrades
check 'As root: every run has a uid of its own, level full' has_a_uid_each
check 'As root: there are sessions' has_sessions
check 'As root: the process that speaks HTTP has no rights' has_few_rights
check 'Uninstall: nothing runs, settings stay' uninstalls
check 'Uninstall: nothing stays' purges
[ "$failed" = 0 ] || journalctl -u sandbox-server --no-pager -o cat | tail -n 40 | sed 's/^/# /'

echo "up $(cut -d. -f1 /proc/uptime) s"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
