#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# embed_text.sh - write a text as C to stdout: the name it has there, the header that declares
# it, the file
set -eu
LC_ALL=C
export LC_ALL

echo '/* Written by src/setup/embed_text.sh; do not edit. */'
printf '#include "%s"\nconst char %s[] = {\n' "$2" "$1"
od -An -v -tx1 "$3" | sed 's/ *\([0-9a-f][0-9a-f]\)/0x\1,/g'
echo '0x00};'
