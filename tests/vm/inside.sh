#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# inside.sh - what is tested in the machine that `run` booted
#
# usage: inside.sh      as root; the root file system is read-only, what was built is in /run/build
#
# First the launcher's own tests, as root and as a plain user with a cgroup delegated to it,
# then the program itself in both roles.
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
		tap "root, $name" env TESTS_MUST_RUN=1 "$program"
		# what a plain user cannot do is skipped there; limits he can have
		must=0
		case $name in
		cgroup*)
			must=1
			# root too may live somewhere else than at the top
			tap "root in a service, $name" in_cgroup "$cg/service/tests" \
				env TESTS_MUST_RUN=1 "$program"
			;;
		esac
		# shellcheck disable=SC2086 # a command and its arguments
		tap "user, $name" in_cgroup "$cg/user/tests" $user env TESTS_MUST_RUN=$must \
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
else
	verdict 1 'sandbox-server was built'
fi

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
