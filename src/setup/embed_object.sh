#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# embed_object.sh - write the shared object of src/python as C, as wire/ahead.h has it
set -eu
LC_ALL=C
export LC_ALL

echo '/* Written by src/setup/embed_object.sh; do not edit. */'
echo '#include "wire/ahead.h"'
echo 'const unsigned char ahead_object[] = {'
od -An -v -tx1 "$1" | sed 's/ *\([0-9a-f][0-9a-f]\)/0x\1,/g'
echo '};'
echo 'const size_t ahead_object_len = sizeof(ahead_object);'
