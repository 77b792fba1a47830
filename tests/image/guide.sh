# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh disable=SC2154
#
# guide.sh - every command of deploy/docker/README.md, in its order, as a person types them
#
# In a network namespace of its own, so that port 8080 is free and nothing of this host's network is
# changed; podman and buildah have our store, curl waits for a server that is about to listen.

GUIDE=deploy/docker/README.md

# what is indented is a command, but for the list and tables there are none
guide_commands() { sed -n 's/^    //p' "$GUIDE"; }

make_tools() {
	mkdir -p "$work/tools" "$work/page"
	cat >"$work/tools/podman" <<-END
		#!/bin/sh
		case \$1 in
		run) shift
			set -- run --pull never --ulimit nofile=20000:20000 --ulimit nproc=4096:4096 "\$@" ;;
		esac
		exec $(command -v podman) --root $dir/store --runroot $dir/run --runtime runc \\
			--cgroup-manager cgroupfs --events-backend file "\$@"
	END
	# what builds has this host's network and its way to registries
	cat >"$work/tools/make" <<-END
		#!/bin/sh
		export BUILDAH='buildah --root $dir/store --runroot $dir/run'
		export IMAGE_FLAGS='--pull-never --isolation chroot $(for_apt)'
		case "\$*" in
		image) IMAGE_FLAGS="\$IMAGE_FLAGS $(for_pip)" ;;
		esac
		exec nsenter -t $$ -n $(command -v make) "\$@"
	END
	chmod +x "$work/tools/podman" "$work/tools/make"
	printf 'retry = 30\nretry-connrefused\nretry-delay = 1\n' >"$work/tools/.curlrc"
	{
		echo 'set -eu'
		guide_commands
	} >"$work/page/commands"
}

# A copy of the tree to type them in: the page writes files.
run_guide() {
	containers="$containers sandbox"
	git ls-files -z -co --exclude-standard | tar --null -T - -cf - | tar -xf - -C "$work/page"
	ln -s "$PWD/build" "$work/page/build"
	cd "$work/page" || return 1
	status=0
	CURL_HOME="$work/tools" PATH="$work/tools:$PATH" unshare --net sh -c \
		'ip link set lo up && exec sh -x commands' || status=$?
	cd - >/dev/null || return 1
	return $status
}

# every request of the page was answered as it should
answers_are_right() {
	asked=$(guide_commands | grep -c '/execute ')
	right=$(grep -c '"stdout":"42\\n"' "$work/said")
	echo "$asked asked, $right right"
	[ "$asked" -gt 3 ] && [ "$asked" = "$right" ]
}
# the last request with a token had the one whose line came by rename: a file that was mounted, and not
# its directory, would be the old one still
token_is_rolled() {
	list=$work/page/tokens/list
	[ "$(wc -l <"$list")" = 2 ] &&
		tail -n 1 "$list" | grep "sha256:$(tr -d '\n' <"$work/page/ci.token" | sha256sum | cut -d' ' -f1)"
}
session_stays() { # the one that was opened is listed by the server that came after
	id=$(sed -n 's/.*"session_id":"\([^"]*\)".*"created":true.*/\1/p' "$work/said")
	[ -n "$id" ] && sed '1,/"created":true/d' "$work/said" | grep "$id"
}

part_guide() {
	bases
	make_tools
	say "the commands of $GUIDE (minutes)"
	check "every command of $GUIDE works" run_guide || {
		cp "$work/out" "$work/said"
		return 0
	}
	cp "$work/out" "$work/said"
	check 'every request of it is answered with 42' answers_are_right || :
	check 'the token that it rolls is the new one' token_is_rolled || :
	check 'the session is there after the upgrade' session_stays || :
}
