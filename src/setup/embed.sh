#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# embed.sh - write a C table of src/config/embedded.h, from the files named, to stdout
#
# usage: embed.sh TABLE FILE...
set -eu
LC_ALL=C
export LC_ALL

table=$1
shift
echo '/* Written by src/setup/embed.sh; do not edit. */'
echo '#include "config/embedded.h"'
n=0
for file; do
	printf 'static const char text_%d[] = {\n' "$n"
	od -An -v -tx1 "$file" | sed 's/ *\([0-9a-f][0-9a-f]\)/0x\1,/g'
	echo '0x00};'
	n=$((n + 1))
done
printf 'const struct embedded_file embedded_%s[] = {\n' "$table"
n=0
for file; do
	name=${file##*/}
	printf '{"%s", text_%d, sizeof(text_%d) - 1},\n' "${name%.json}" "$n" "$n"
	n=$((n + 1))
done
# an array of nothing is not C
[ "$n" -gt 0 ] || echo '{0},'
echo '};'
printf 'const size_t embedded_%s_count = %d;\n' "$table" "$n"
