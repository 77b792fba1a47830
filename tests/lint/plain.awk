# SPDX-License-Identifier: GPL-2.0-only
#
# plain.awk - C without its comments and the contents of its literals, as "file:line:code"
#
# A comment of the // kind stays as "//", for whoever looks for those.
FNR == 1 { within = 0 }
{
	text = $0
	code = ""
	while (text != "") {
		if (within) {
			at = index(text, "*/")
			if (!at)
				break
			text = substr(text, at + 2)
			within = 0
			continue
		}
		if (!match(text, /\/\*|\/\/|["']/)) {
			code = code text
			break
		}
		code = code substr(text, 1, RSTART - 1)
		mark = substr(text, RSTART, RLENGTH)
		text = substr(text, RSTART + RLENGTH)
		if (mark == "/*") {
			within = 1
		} else if (mark == "//") {
			code = code "//"
			break
		} else {
			code = code mark mark
			while (text != "" && substr(text, 1, 1) != mark)
				text = substr(text, substr(text, 1, 1) == "\\" ? 3 : 2)
			text = substr(text, 2)
		}
	}
	if (code ~ /[^ \t]/)
		printf "%s:%d:%s\n", FILENAME, FNR, code
}
