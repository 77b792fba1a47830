#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# inside.sh - what is tested in the machine that `run` booted
#
# usage: inside.sh      as root, in a directory with what `run` put there
#
# What an operator types is read from README.md, section by section; then it is seen whether that
# did what the page says. At the end, what a node of Kubernetes would make of a pod.
set -u
LC_ALL=C
DEBIAN_FRONTEND=noninteractive
APT_CONFIG=/run/apt.conf
export LC_ALL DEBIAN_FRONTEND APT_CONFIG
echo 'APT::Get::Assume-Yes "true";' >$APT_CONFIG

job=$(pwd)
url=http://127.0.0.1:8080
in_pod= # the command that is put before curl
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
	# shellcheck disable=SC2086 # a command and its arguments
	status=$($in_pod curl -s -m 60 -o /run/answer -w '%{http_code}' "$@" "$url$path")
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
# has_sessions [OPTION...]: curl's
has_sessions() {
	ask /sessions -H 'Content-Type: application/json' -d '{"scope":"test"}' "$@"
	[ "$status" = 200 ] || [ "$status" = 201 ] || return 1
	id=$(jq -r .session_id /run/answer)
	ask "/sessions/$id/exec" -H 'Content-Type: application/json' -d '{"command":"echo 42"}' "$@" &&
		holds '.stdout == "42\n" and .meta.isolation == "full"'
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

# what systemd-analyze says is what the page says
exposure_is_as_told() {
	systemd-analyze --no-pager security sandbox-server.service | tail -n 1 | tee /run/exposure
	told=$(sed -n 's/.*exposure, \([0-9]*\.[0-9]\) of 10;.*/\1/p' README.md)
	[ -n "$told" ] && grep -q ": $told " /run/exposure
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

# ---- what goes out -----------------------------------------------------------------------------

# packages from an index on this machine, and a host that is not this machine
has_an_index() {
	install -m 755 "$job/uv" /usr/local/bin/uv
	ip netns add world && ip link add near type veth peer name far netns world || return 1
	ip addr add 11.1.1.2/24 dev near && ip link set near up || return 1
	ip -n world addr add 11.1.1.1/24 dev far && ip -n world link set far up || return 1
	echo '11.1.1.1 far.test' >>/etc/hosts
	python3 -m http.server 8090 --bind 127.0.0.1 --directory "$job/index" >/run/index 2>&1 &
	near=$!
	ip netns exec world python3 -m http.server 80 --bind 11.1.1.1 --directory "$job/index" \
		>/run/far 2>&1 &
	far=$!
	cp /etc/sandbox-server.conf /run/conf
	cat >>/etc/sandbox-server.conf <<-END
		SANDBOX_PYTHON_INDEX=http://127.0.0.1:8090/simple
		SANDBOX_NETWORK=far.test:80
	END
	wait_for curl -s -o /dev/null http://127.0.0.1:8090/ || return 1
	systemctl restart sandbox-server && is_active
}
installs_packages() {
	execute 'import greet; print(greet.WORD)' ',"requirements":["greet"]' &&
		holds '.stdout == "hello\n" and .meta.isolation == "full"'
}
reaches_what_is_listed() {
	code='import urllib.request as u; print(u.urlopen(\"http://far.test/simple/greet/\").status)'
	execute "$code" ',"network":true' && holds '.stdout == "200\n" and .meta.network.connections == 1'
}
reaches_nothing_else() {
	code='import urllib.request as u; print(u.urlopen(\"http://11.1.1.1/\").status)'
	execute "$code" ',"network":true' && holds '.exit_code == 1 and .meta.network.refused == 1'
}
# as sandbox-api(7) has it: the supervisor ends the others in order, and nobody brings it back
ends_by_a_signal() {
	# shellcheck disable=SC2046 # one number
	kill -TERM $(pgrep -o -x sandbox-server)
	wait_for is_inactive && [ "$(show Result)" = success ] && nothing_is_left
}
is_inactive() { [ "$(show ActiveState)" = inactive ]; }
goes_home() {
	kill "$near" "$far"
	cp /run/conf /etc/sandbox-server.conf && systemctl start sandbox-server && is_active
}

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
# the unit lets its user write there
audits() {
	audit=/var/log/sandbox-server/audit
	cp /etc/sandbox-server.conf /run/conf
	echo SANDBOX_AUDIT_FILE=$audit >>/etc/sandbox-server.conf
	systemctl restart sandbox-server && is_active || return 1
	execute 'print(1)' '' -H "$(token ci)" && [ "$status" = 200 ] || return 1
	cp /run/conf /etc/sandbox-server.conf
	systemctl restart sandbox-server && is_active || return 1
	grep '"event":"run".*"token":"ci".*"verdict":"ok"' $audit && sandbox-server audit verify $audit
}

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
# a package takes what it brought, the page what the operator made
purges() {
	page Uninstall && [ ! -e /etc/sandbox-server.conf ] && [ ! -e /var/lib/sandbox-server ] &&
		[ ! -e /var/log/sandbox-server ] && [ ! -e /etc/sandbox-server.tokens ] &&
		[ ! -e /etc/systemd/system/sandbox-server.service.d ] &&
		[ ! -e /lib/systemd/system/sandbox-server.service ] &&
		! systemctl is-enabled sandbox-server.service
}

# the files of `make install`, which `run` left in a tree
does_without_the_package() {
	tar -C / --keep-directory-symlink -xzf tree.tar.gz && page 'Without the package' && is_active &&
		systemctl is-enabled sandbox-server && level_is_full && runs && has_no_rights
}
is_taken_away() {
	systemctl disable -q --now sandbox-server && nothing_is_left || return 1
	tar -tzf tree.tar.gz | grep -v '/$' | (cd / && xargs rm) && systemctl daemon-reload
}

# ---- a pod -------------------------------------------------------------------------------------

# bundle NAME: what runc wants to see; the container's uid 65532 is 265532 here, as NAME.json says
bundle() {
	place=/srv/$1
	for d in proc dev sys usr etc tmp state; do mkdir -p "$place/root/$d"; done
	for d in bin sbin lib lib64; do ln -s "usr/$d" "$place/root/$d"; done
	cp /etc/passwd /etc/group /etc/ld.so.cache "$place/root/etc/"
	install -d -o 265532 -g 265532 "$place/tmp" "$place/state"
	cp "$1.json" "$place/config.json"
}
pod_starts() {
	tar -C / --keep-directory-symlink -xzf tree.tar.gz # its image's /usr is this machine's
	bundle pod
	(cd /srv/pod && exec runc --systemd-cgroup run -d --pid-file /run/pod.pid pod) \
		</dev/null >/run/pod.log 2>&1
	in_pod="nsenter -t $(cat /run/pod.pid) -n"
	wait_for is_ready || {
		cat /run/pod.log
		return 1
	}
}
pod_runs_out_of_memory() {
	execute 'x = bytearray(300 << 20)' ',"limits":{"memory_mb":64}' &&
		holds '.meta.verdict == "out_of_memory"' && runs
}
is_ready() { ask /readyz && [ "$status" = 200 ]; }
# the runtime gave its cgroup to the pod's user, and nobody there is anybody else
# shellcheck disable=SC2016 # for awk
pod_has_its_cgroup() {
	pod_cgroup=$(find /sys/fs/cgroup/kubepods.slice -name 'cri-containerd-pod.scope')
	ls -ldn "$pod_cgroup" "$pod_cgroup/cgroup.procs" "$pod_cgroup/memory.max"
	[ "$(stat -c %u "$pod_cgroup")" = 265532 ] && [ "$(stat -c %u "$pod_cgroup/memory.max")" = 0 ] &&
		[ "$(cat "$pod_cgroup/memory.max")" = 2147483648 ] && [ ! -s "$pod_cgroup/cgroup.procs" ] &&
		[ "$(find "$pod_cgroup" -name cgroup.procs -exec cat {} + |
			sed 's|.*|/proc/&/status|' | xargs awk '/^Uid:/ { print $2 }' | sort -u)" = 265532 ]
}
# what the SDK of agent-sandbox asks for
# shellcheck disable=SC2016 # for the shell in there
serves_the_sdk() {
	ask /execute -H 'Content-Type: application/json' -d '{"command":"echo $((6*7)) >f; cat f"}' &&
		holds '.stdout == "42\n" and .exit_code == 0' || return 1
	printf 'sent\n' >/run/sent
	ask /upload -F 'file=@/run/sent;filename=sent' && [ "$status" = 200 ] || return 1
	ask /download/sent && [ "$(cat /run/answer)" = sent ] || return 1
	ask /list/ && holds '[.[].name] | sort == ["f", "sent"]' || return 1
	ask /exists/f && holds .exists
}
pod_ends() {
	runc --systemd-cgroup kill pod TERM && wait_for pod_is_over && runc --systemd-cgroup delete pod &&
		[ ! -e "$pod_cgroup" ]
}
pod_is_over() { runc --systemd-cgroup state pod | jq -e '.status == "stopped"'; }
pod_withstands() {
	bundle selftest
	(cd /srv/selftest && exec runc --systemd-cgroup run selftest) </dev/null >/run/answer 2>/run/pod.log
	cat /run/answer /run/pod.log
	holds '.ok and .level == "full" and .all.ok == 6'
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
check 'there are sessions, and commands in them' has_sessions
check 'nobody in the service has any right' has_no_rights
check 'systemctl status' status_is_fine
check 'the units are well-formed' systemd-analyze verify --man=no sandbox-server.service sandbox-server.socket
check 'the exposure is the one of the page' exposure_is_as_told
check 'Configure: settings are taken by a restart' restarts
# an emulated processor has better things to do than to have pythons wait
echo SANDBOX_WARM=0 >>/etc/sandbox-server.conf
check 'a killed server comes back' comes_back
check 'systemctl stop waits for what runs' stops_gently
check 'no process and no cgroup is left' nothing_is_left
check 'it starts again' systemctl start sandbox-server
check 'it starts with an index and a host that may be reached' has_an_index
check 'packages are installed, at level full' installs_packages
check 'a program reaches the host that is listed' reaches_what_is_listed
check 'and no other' reaches_nothing_else
check 'SIGTERM ends it, and nothing is left' ends_by_a_signal
check 'it starts without them' goes_home
check 'Tokens: clients need one' wants_a_token
check 'Another token: taken by a reload' takes_another
check 'a file that is no good changes nothing' keeps_the_old_ones
check 'Logs: the journal has them' logs
check 'an audit file has a line for each run, and is as it was written' audits
check 'On demand: the first client starts it' starts_on_demand
check 'clients wait while it is restarted' waits_for_a_restart
check 'socket and service stop, and nothing is left' stops_listening
check 'Upgrade: the later version serves, settings stay' upgrades
check 'As root: every run has a uid of its own, level full' has_a_uid_each
check 'As root: there are sessions, and commands in them' has_sessions -H "$(token ci)"
check 'As root: the process that speaks HTTP has no rights' has_few_rights
check 'Uninstall: nothing runs, settings stay' uninstalls
check 'Uninstall: nothing stays' purges
check 'Without the package: what make install left serves, at level full' does_without_the_package
check 'and can be taken away' is_taken_away
check 'a pod of deploy/kubernetes/server-full starts' pod_starts
check 'the level in it is full' level_is_full
check 'every layer that was asked for is active in it' every_layer
check 'a program runs in it' runs
check 'one that is out of memory is killed, and the pod lives' pod_runs_out_of_memory
check 'the cgroup is its user'"'"'s, the limits of the pod are not' pod_has_its_cgroup
check 'what the SDK of agent-sandbox asks for is done' serves_the_sdk
check 'it ends, and leaves no cgroup' pod_ends
in_pod=
check 'attacks in such a pod fail' pod_withstands
[ "$failed" = 0 ] || journalctl -u sandbox-server --no-pager -o cat | tail -n 40 | sed 's/^/# /'

echo "up $(cut -d. -f1 /proc/uptime) s"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
