#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# embed.sh - write the C table of src/config/embedded.h, from the files named, to stdout
set -eu
LC_ALL=C
export LC_ALL

echo '/* Written by src/setup/embed.sh; do not edit. */'
echo '#include "config/embedded.h"'
n=0
for file; do
	printf 'static const char text_%d[] = {\n' "$n"
	od -An -v -tx1 "$file" | sed 's/ *\([0-9a-f][0-9a-f]\)/0x\1,/g'
	echo '0x00};'
	n=$((n + 1))
done
echo 'const struct embedded_policy embedded_policies[] = {'
n=0
for file; do
	name=${file##*/}
	printf '{"%s", text_%d, sizeof(text_%d) - 1},\n' "${name%.json}" "$n" "$n"
	n=$((n + 1))
done
# an array of nothing is not C
[ "$n" -gt 0 ] || echo '{0},'
echo '};'
printf 'const size_t embedded_policy_count = %d;\n' "$n"
