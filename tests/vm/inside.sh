#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# inside.sh - what is tested in the machine that `run` booted
#
# usage: inside.sh      as root; the root file system is read-only, what was built is in /run/build
#
# First the launcher's own tests, as root and as a plain user with a cgroup delegated to it,
# then the program itself in both roles, and a server whose cgroup is taken away.
set -u
LC_ALL=C
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
HOME=/tmp
SANDBOX_SERVER=/run/build/sandbox-server
export LC_ALL PATH HOME SANDBOX_SERVER

cg=/sys/fs/cgroup
user='setpriv --reuid 1000 --regid 1000 --clear-groups'
passed=0
failed=0

# verdict STATUS DESCRIPTION
verdict() {
	if [ "$1" = 0 ]; then
		passed=$((passed + 1))
		echo "ok - $2"
	else
		failed=$((failed + 1))
		echo "not ok - $2"
	fi
}

# in_cgroup DIRECTORY COMMAND...: the command starts there, alone
in_cgroup() {
	# shellcheck disable=SC2016 # for the inner shell
	timeout 300 sh -c 'd=$1; shift; echo $$ >"$d/cgroup.procs" && exec "$@"' sh "$@"
}

# a directory that belongs to the user, as a service manager hands it over
delegate() {
	mkdir "$1"
	chown 1000:1000 "$1" "$1/cgroup.procs" "$1/cgroup.threads" "$1/cgroup.subtree_control"
}

# tap WHO COMMAND...: counts what a test program says; its end counts when it says nothing
tap() {
	who=$1
	shift
	"$@" >/run/tap 2>&1
	status=$?
	sed "s|^\(not \)\{0,1\}ok [0-9]* |&$who: |" /run/tap
	good=$(grep -c '^ok [0-9]' /run/tap)
	skipped=$(grep -c '^ok [0-9].* # SKIP' /run/tap)
	bad=$(grep -c '^not ok ' /run/tap)
	[ "$status" = 0 ] || [ "$bad" != 0 ] || bad=1
	passed=$((passed + good - skipped))
	failed=$((failed + bad))
}

# ask CODE COMMAND...: one run in a shell, started by the command; its answer in /run/answer
ask() {
	code=$1
	shift
	printf '%s\n' "$code" | "$@" "$SANDBOX_SERVER" run --json --mode shell - \
		>/run/answer 2>/run/answer.log
}

# expect DESCRIPTION FILTER: the answer makes the jq filter true
expect() {
	# an empty answer makes every filter of this jq true
	if [ -s /run/answer ] && jq -e "$2" /run/answer >/dev/null 2>&1; then
		verdict 0 "$1"
	else
		verdict 1 "$1"
		head -c 2000 /run/answer /run/answer.log
		echo
	fi
}

launcher_tests() {
	for program in /run/build/tests/launcher/test_*; do
		[ -x "$program" ] || continue
		name=${program##*/test_}
		tap "root, $name" env TESTS_SLOW=1 TESTS_MUST_RUN=1 "$program"
		# what a plain user cannot do is skipped there; limits he can have
		must=0
		case $name in
		cgroup*)
			must=1
			# root too may live somewhere else than at the top
			tap "root in a service, $name" in_cgroup "$cg/service/tests" \
				env TESTS_SLOW=1 TESTS_MUST_RUN=1 "$program"
			;;
		esac
		# shellcheck disable=SC2086 # a command and its arguments
		tap "user, $name" in_cgroup "$cg/user/tests" $user env TESTS_SLOW=1 TESTS_MUST_RUN=$must \
			"$program"
	done
}

# program_tests WHO COMMAND...: the command puts what follows it in its place
program_tests() {
	who=$1
	shift
	"$@" "$SANDBOX_SERVER" check >/run/check 2>&1
	verdict $? "$who: check finds the isolation that is asked for"
	grep -qw full /run/check
	verdict $? "$who: check says full"
	grep -qw full /run/check || cat /run/check

	ask 'echo hello' "$@"
	expect "$who: a program runs at level full" \
		'.meta.verdict == "ok" and .stdout == "hello\n" and .meta.isolation == "full"'
	expect "$who: it was alone and its memory is known" \
		'(.meta.usage.pids_peak == 1 or .meta.usage.unavailable.pids_peak) and
		.meta.usage.memory_peak_kb > 100'

	ask 'head -c 1000000000 /dev/zero | tail >/dev/null' "$@" env SANDBOX_MEMORY_MB=64
	expect "$who: memory without end is out_of_memory" '.meta.verdict == "out_of_memory"'
	expect "$who: its peak is the limit" \
		'.meta.usage.memory_peak_kb > .meta.resource_limits.memory_mb * 512 and
		.meta.usage.memory_peak_kb <= .meta.resource_limits.memory_mb * 1024'

	ask 'f() { f | f & }; f; sleep 2; echo survived' "$@" env SANDBOX_TIMEOUT_SEC=10
	expect "$who: a fork bomb stays within its limit" \
		'(.stderr | contains("Resource temporarily unavailable")) and
		(.meta.usage.unavailable.pids_peak or (.meta.usage.pids_peak > 10 and
		.meta.usage.pids_peak <= .meta.resource_limits.pids))'

	# shellcheck disable=SC2016
	ask 'i=0; while [ $i -lt 30000 ]; do i=$((i + 1)); done' "$@"
	expect "$who: CPU time is counted" \
		'.meta.usage.cpu_ms > 10 and .meta.usage.cpu_ms <= 2 * .execution_time_ms + 100'

	ask 'while :; do :; done' "$@" env SANDBOX_TIMEOUT_SEC=2
	expect "$who: a loop ends at its deadline" \
		'.meta.verdict == "timeout" and .exit_code == -1'

	left=$(find "$cg" -name 'sandbox-server.*' | head -n 5)
	[ -z "$left" ]
	verdict $? "$who: no cgroup is left behind"
	[ -z "$left" ] || echo "$left"
}

# answers PATH: its status; the body in /run/answer
answers() {
	curl -s -m 20 -o /run/answer -w '%{http_code}' "http://127.0.0.1:$port/$1"
}

# ran: the status of a run; the body in /run/answer
ran() {
	curl -s -m 60 -o /run/answer -w '%{http_code}' -H 'Content-Type: application/json' \
		-d '{"code":"echo ran"}' "http://127.0.0.1:$port/execute"
}

# wait_ready STATUS: until /readyz says so, a minute at most
wait_ready() {
	tries=0
	until [ "$(answers readyz)" = "$1" ]; do
		tries=$((tries + 1))
		[ $tries -lt 300 ] || return 1
		sleep 0.2
	done
}

# take_cgroup_away BASE LAUNCHER: while it does not look. Its slots go first, then our own
# processes, which live in there as well
take_cgroup_away() {
	kill -STOP "$2"
	# shellcheck disable=SC2046 # numbers
	kill -KILL $(pgrep -P "$2")
	while read -r pid; do
		echo "$pid" >$cg/service/tests/cgroup.procs
	done <"$1/control/cgroup.procs"
	tries=0
	until find "$1" -depth -type d -exec rmdir {} \; 2>/dev/null && [ ! -d "$1" ]; do
		tries=$((tries + 1))
		[ $tries -lt 50 ] || break
		sleep 0.2
	done
	kill -CONT "$2"
	[ ! -d "$1" ]
}

# asked LANGUAGE CODE [MORE]: the answer of a run, MORE are further members of the request
asked() {
	curl -s -m 60 -o /run/answer -H 'Content-Type: application/json' \
		-d "{\"language\":\"$1\",\"code\":\"$2\"${3-}}" "http://127.0.0.1:$port/execute"
}

# all_wait [MODE]: until one of it, or of each mode, does; a minute at most
all_wait() {
	tries=0 all='.python >= 1 and .shell >= 1'
	[ $# = 0 ] || all=".$1 >= 1"
	until [ "$(answers health)" = 200 ] &&
		jq -e ".warm.ready | $all" /run/answer >/dev/null; do
		tries=$((tries + 1))
		[ $tries -lt 300 ] || return 1
		sleep 0.2
	done
}

# warm_tests WHO DIRECTORY COMMAND...: as program_tests, of sandboxes that wait
warm_tests() {
	who=$1 dir=$2
	shift 2
	port=8098
	mkdir -p "$dir"
	chmod 777 "$dir"
	"$@" "$SANDBOX_SERVER" serve --port $port --mode python,shell --warm 1 \
		--state-dir "$dir" >/run/serve.log 2>&1 &
	wait_ready 200
	verdict $? "$who: a server with waiting sandboxes is ready"
	all_wait
	verdict $? "$who: one of each mode waits"
	asked python 'print(6*7)'
	expect "$who: python was waiting" '.stdout == "42\n" and .meta.usage.warm'
	all_wait
	asked shell 'echo 42'
	expect "$who: shell was waiting" '.stdout == "42\n" and .meta.usage.warm'
	all_wait
	asked python 'x = bytearray(200 << 20)' ',"limits":{"memory_mb":64,"disk_mb":16}'
	expect "$who: a lower limit of memory holds" \
		'.meta.verdict == "out_of_memory" and .meta.usage.warm'
	all_wait
	asked shell 'head -c 20000000 /dev/zero >x' ',"limits":{"disk_mb":16}'
	expect "$who: and one of the disk" '.meta.verdict == "disk_full" and .meta.usage.warm'
	all_wait
	asked python 'print(1)'
	expect "$who: processor time of waiting is not the run's" \
		'.meta.usage.warm and .meta.usage.cpu_ms <= .execution_time_ms * 2 + 100'
	# shellcheck disable=SC2046 # one number
	kill -TERM $(pgrep -o -f ' serve --port 8098 ')
	wait
	left=$(find "$cg" -name 'sandbox-server.*' | head -n 5)
	[ -z "$left" ]
	verdict $? "$who: nothing that waited is left behind"
}

# fork_tests WHO DIRECTORY COMMAND...: as warm_tests, of runs forked from a started python
fork_tests() {
	who=$1 dir=$2
	shift 2
	port=8097
	mkdir -p "$dir"
	chmod 777 "$dir"
	"$@" "$SANDBOX_SERVER" serve --port $port --mode python --warm 0 --warm-fork on \
		--max-concurrent 1 --state-dir "$dir" >/run/serve.log 2>&1 &
	wait_ready 200 && all_wait python
	verdict $? "$who: a server that forks runs has a python to fork from"
	leave="import os; print(os.path.exists('/tmp/x'), os.getenv('X'), sorted(os.listdir('/work')))"
	leave="$leave; open('/tmp/x', 'w').close(); open('x', 'w').close(); os.environ['X'] = 'x'"
	for _ in 1 2; do
		all_wait python
		asked python "$leave"
		expect "$who: a forked run finds nothing of the one before" \
			'.stdout == "False None [\u0027output\u0027, \u0027script.py\u0027]\n" and .meta.usage.warm'
	done
	all_wait python
	asked python 'x = bytearray(200 << 20)' ',"limits":{"memory_mb":64,"disk_mb":16}'
	expect "$who: a lower limit of memory holds for a forked run" \
		'.meta.verdict == "out_of_memory" and .meta.usage.warm'
	# shellcheck disable=SC2046 # one number
	kill -TERM $(pgrep -o -f ' serve --port 8097 ')
	wait
	left=$(find "$cg" -name 'sandbox-server.*' | head -n 5)
	[ -z "$left" ]
	verdict $? "$who: nothing of what forks is left behind"
}

# the attack of runs on the next, in runs that were forked
fork_attack() {
	in_cgroup $cg/service/alone "$SANDBOX_SERVER" selftest --mode python --warm 0 --warm-fork on \
		--case XS10 --json >/run/answer 2>/run/answer.log
	expect "root: XS10 holds for forked runs" \
		'.ok and (.cases[0].observed | contains("python: 4 of 4 runs had waited"))'
}

# in_one METHOD PATH [JSON]: of a session; its answer in /run/answer
in_one() {
	curl -s -m 60 -X "$1" -o /run/answer -H 'Content-Type: application/json' ${3:+-d "$3"} \
		"http://127.0.0.1:$port/sessions$2"
}

# session_tests WHO COMMAND...: as program_tests, of sessions, whose files need a disk. Those of
# root are tested where there is more time
session_tests() {
	who=$1
	shift
	port=8095
	disk=$(mktemp -d /run/sessions.XXXXXX)
	truncate -s 128M "$disk.img"
	mkfs.ext4 -q "$disk.img" && mount -o loop "$disk.img" "$disk" && chmod 777 "$disk"
	verdict $? "$who: there is a disk for sessions"
	"$@" "$SANDBOX_SERVER" serve --port $port --mode shell --warm 0 --memory-mb 64 \
		--state-dir "$disk/state" >/run/serve.log 2>&1 &
	wait_ready 200
	in_one POST '' '{"scope_type":"agent","scope_id":"a"}'
	expect "$who: a session opens" '.created and .status == "ready"'
	one=/agent_a_sandbox
	in_one POST $one/exec '{"command":"sleep 1001 >/dev/null 2>&1 & echo kept > f"}'
	expect "$who: a command in it has all that a run has" \
		'.exit_code == 0 and .meta.isolation == "full" and
		(.meta.usage.pids_peak or .meta.usage.unavailable.pids_peak)'
	in_one POST $one/exec '{"command":"(setsid sleep 1002 &); sleep 1003","timeout_seconds":2}'
	expect "$who: a timeout" '.timed_out'
	in_one POST $one/exec '{"command":"cat f; pgrep -fa ^sleep | cut -d \" \" -f 2-"}'
	expect "$who: ended the command alone" '.stdout == "kept\nsleep 1001\n"'
	in_one POST $one/exec '{"command":"head -c 100000000 /dev/zero | tail >/dev/null"}'
	expect "$who: its memory has an end" '.meta.verdict == "out_of_memory"'
	in_one POST $one/fork '{"count":1}'
	two=/$(jq -r '.sessions[0].session_id' /run/answer)
	in_one POST "$two/exec" '{"command":"cat f"}'
	expect "$who: a fork has its files" '.stdout == "kept\n"'
	in_one DELETE $one
	in_one DELETE "$two"
	expect "$who: it is closed" '.closed'
	# shellcheck disable=SC2046 # one number
	kill -TERM $(pgrep -o -f " serve --port $port ")
	wait
	umount "$disk"
	verdict $? "$who: nothing of sessions is mounted"
	left=$(find "$cg" -name 'sandbox-server.*' | head -n 5)
	[ -z "$left" ]
	verdict $? "$who: no cgroup of a session is left behind"
	[ "$failed" = 0 ] || tail -n 30 /run/serve.log
}

lost_cgroup_tests() {
	port=8099
	in_cgroup $cg/service/alone "$SANDBOX_SERVER" serve --port $port --mode shell --warm 0 \
		--state-dir /run/state >/run/serve.log 2>&1 &
	wait_ready 200
	verdict $? 'a server: ready'
	[ "$(ran)" = 200 ]
	verdict $? 'a server: runs programs'
	base=$(find $cg/service/alone -maxdepth 1 -name 'sandbox-server.*')
	# sandbox-server.BOOT.PID.START
	supervisor=$(echo "${base##*/}" | cut -d. -f3)
	launcher=$(pgrep -P "$supervisor" -f ' launcher$')

	take_cgroup_away "$base" "$launcher"
	verdict $? 'a cgroup that goes: it is gone'
	wait_ready 503
	verdict $? 'a cgroup that goes: not ready'
	[ "$(ran)" = 503 ]
	verdict $? 'a cgroup that goes: nothing is run'
	expect 'a cgroup that goes: the layer is named' \
		'.code == "isolation_lost" and (.error | contains("memory_limit"))'

	mkdir "$base" && echo '+memory +pids +cpu' >"$base/cgroup.subtree_control"
	wait_ready 200
	verdict $? 'a cgroup that comes back: ready'
	[ "$(ran)" = 200 ]
	verdict $? 'a cgroup that comes back: programs run'
	expect 'a cgroup that comes back: at level full' \
		'.stdout == "ran\n" and .meta.isolation == "full"'
	[ "$(pgrep -P "$supervisor" -f ' launcher$')" = "$launcher" ]
	verdict $? 'a cgroup that comes back: the launcher is the same'

	kill -TERM "$supervisor"
	wait
	[ ! -d "$base" ]
	verdict $? 'a cgroup that comes back: it is removed at the end'
	[ "$failed" = 0 ] || tail -n 30 /run/serve.log
}

# in_session METHOD PATH [JSON]: the status; its answer in /run/answer
in_session() {
	curl -s -m 60 -X "$1" -o /run/answer -w '%{http_code}' -H 'Content-Type: application/json' \
		${3:+-d "$3"} "http://127.0.0.1:$port/sessions$2"
}

# a state directory whose file system counts: nobody has to look, and nothing is too quick
quota_tests() {
	port=8096
	mkdir /run/quota
	truncate -s 256M /run/quota.img
	mkfs.ext4 -q -O quota,project -E quotatype=prjquota /run/quota.img &&
		mount -o loop,prjquota /run/quota.img /run/quota
	verdict $? 'quota: there is a file system that counts'
	in_cgroup $cg/service/alone "$SANDBOX_SERVER" serve --port $port --mode shell --warm 0 \
		--disk-mb 16 --state-dir /run/quota >/run/serve.log 2>&1 &
	wait_ready 200
	verdict $? 'quota: a server is ready'
	in_session POST '' '{"scope_type":"agent","scope_id":"q"}' >/run/status
	expect 'quota: a session says who enforces it' \
		'.disk.enforced == "project_quota" and .disk.limit_mb == 16'
	# in several files, each small enough, and in one that has no name any more
	# shellcheck disable=SC2016 # for the inner shell
	in_session POST /agent_q_sandbox/exec \
		'{"command":"for f in 1 2 3 4; do head -c 6M /dev/zero >f$f || exit 1; done"}' >/run/status
	expect 'quota: what is too much is refused, not ended' \
		'.exit_code == 1 and .meta.verdict == "disk_full" and
		(.stderr | contains("Disk quota exceeded"))'
	in_session GET /agent_q_sandbox >/run/status
	expect 'quota: not a block more is used' '.disk.used_mb > 15 and .disk.used_mb <= 16'
	in_session POST /agent_q_sandbox/exec \
		'{"command":"rm f*; exec 3>x; rm x; head -c 15M /dev/zero >&3; head -c 15M /dev/zero >y"}' \
		>/run/status
	expect 'quota: nor by what has no name' \
		'.exit_code == 1 and (.stderr | contains("Disk quota exceeded"))'
	in_session POST /agent_q_sandbox/exec '{"command":"rm y; seq 7000 | xargs touch"}' >/run/status
	expect 'quota: nor are there too many files' '.exit_code != 0'
	in_session POST /agent_q_sandbox/exec \
		'{"command":"find . -type f -delete; head -c 4M /dev/zero >z"}' >/run/status
	expect 'quota: and what is removed is there again' '.exit_code == 0'
	in_session POST /agent_q_sandbox/fork '{"count":1,"force":true}' >/run/status
	other=$(jq -r '.sessions[0].session_id' /run/answer)
	in_session POST "/$other/exec" '{"command":"head -c 10M /dev/zero >a && stat -c %s z"}' >/run/status
	expect 'quota: a fork has one of its own' '.stdout == "4194304\n" and .exit_code == 0'
	in_session POST "/$other/exec" '{"command":"head -c 4M /dev/zero >b"}' >/run/status
	expect 'quota: of which it has what it has in common, too' \
		'.exit_code == 1 and .meta.verdict == "disk_full"'
	# files of many layers, each with a project of its own, are linked into one that has none
	n=0
	while [ $n -lt 26 ]; do
		in_session POST /agent_q_sandbox/exec "{\"command\":\"echo $n >n$n\"}" >/run/status
		in_session POST /agent_q_sandbox/checkpoints '{}' >/run/status
		n=$((n + 1))
	done
	n=0
	while ! grep -q 'session\.flat ' /run/serve.log && [ $n -lt 50 ]; do
		sleep 0.2
		n=$((n + 1))
	done
	in_session POST /agent_q_sandbox/exec \
		'{"command":"cat n0 n25; stat -c %s z; head -c 9M /dev/zero >a && head -c 6M /dev/zero >b; du -m a"}' \
		>/run/status
	expect 'quota: layers that were merged are all there, and count once' \
		'.stdout == "0\n25\n4194304\n9\ta\n" and (.stderr | contains("Disk quota exceeded"))'
	grep -q 'session\.flat ' /run/serve.log
	verdict $? 'quota: they were merged'
	in_session DELETE /agent_q_sandbox >/run/status
	in_session DELETE "/$other" >/run/status
	# shellcheck disable=SC2046 # one number
	kill -TERM $(pgrep -o -f " serve --port $port ")
	wait
	umount /run/quota && rm /run/quota.img
	verdict $? 'quota: nothing holds it afterwards'
	[ "$failed" = 0 ] || tail -n 30 /run/serve.log
}

# case PC13 of selftest, which must not touch the clock of a host: this one is ours
clock_tests() {
	port=8094
	in_cgroup $cg/service/alone "$SANDBOX_SERVER" serve --port $port --mode shell --warm 1 \
		--state-dir /run/clock >/run/serve.log 2>&1 &
	wait_ready 200
	verdict $? 'clock: a server is ready'
	for step in '+1 day' '-2 days' '+1 day'; do
		asked shell 'sleep 1001' ',"timeout_seconds":3' &
		asking=$!
		sleep 1
		date -s "$step" >/dev/null
		verdict $? "clock: stepped by $step during a run"
		wait $asking
		expect "clock: $step: the deadline does not care" '.meta.verdict == "timeout" and
			.execution_time_ms >= 2900 and .execution_time_ms < 4500'
	done
	# shellcheck disable=SC2046 # one number
	kill -TERM $(pgrep -o -f " serve --port $port ")
	wait
}

echo "kernel $(uname -r), controllers: $(cat $cg/cgroup.controllers)"
chmod -R a+rX /run/build

echo '+memory +pids +cpu' >$cg/cgroup.subtree_control
delegate $cg/user
mkdir $cg/service
for place in user service; do
	echo '+memory +pids +cpu' >$cg/$place/cgroup.subtree_control
	delegate $cg/$place/tests
	delegate $cg/$place/alone
done

busybox ip link set lo up # tests of sockets have a peer
launcher_tests
if [ -x "$SANDBOX_SERVER" ]; then
	program_tests root in_cgroup $cg/service/alone
	# shellcheck disable=SC2086 # a command and its arguments
	program_tests user in_cgroup $cg/user/alone $user
	warm_tests root /run/warm in_cgroup $cg/service/alone
	# shellcheck disable=SC2086 # a command and its arguments
	warm_tests user /run/warm-user in_cgroup $cg/user/alone $user
	fork_attack
	# shellcheck disable=SC2086 # a command and its arguments
	fork_tests user /run/fork-user in_cgroup $cg/user/alone $user
	# shellcheck disable=SC2086 # a command and its arguments
	session_tests user in_cgroup $cg/user/alone $user
	lost_cgroup_tests
	quota_tests
	clock_tests
else
	verdict 1 'sandbox-server was built'
fi

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
