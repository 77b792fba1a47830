# SPDX-License-Identifier: GPL-2.0-only
"""README.md and tests/bench/RESULTS.md show one measurement, as tests/bench/readme writes it."""

import json
import os
import re
import subprocess
import sys
import types

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "tests/bench"))
import report  # noqa: E402

PAGES = "README.md", "tests/bench/RESULTS.md"
BEGIN, END = "<!-- bench: tests/bench/readme writes this -->", "<!-- end of bench -->"


def block(text):
    (found,) = re.findall(re.escape(BEGIN) + "\n(.*?)" + re.escape(END), text, re.S)
    return found.strip().split("\n\n")


def cells(table):
    return [[c.strip() for c in line.strip("|").split("|")] for line in table.split("\n")]


def pages():
    for name in PAGES:
        with open(os.path.join(TOP, name), encoding="utf-8") as f:
            yield f.read()


def write(tmp_path, texts, tables):
    files = [tmp_path / "README.md", tmp_path / "RESULTS.md"]
    for file, text in zip(files, texts):
        file.write_text(text)
    (tmp_path / "bench.json").write_text(json.dumps({"readme": tables}))
    done = subprocess.run([os.path.join(TOP, "tests/bench/readme"), tmp_path / "bench.json", *files],
                          capture_output=True, text=True, check=False)  # fmt: skip
    return done, [file.read_text() for file in files]


TABLES = {"head": "today", "aims": "| a |", "beside": "| b |", "contenders": "| c |"}


def test_both_pages_show_the_same_measurement():
    (head, _, beside), (same_head, times) = map(block, pages())
    assert head == same_head and re.match(r"20\d\d-\d\d-\d\d, \d+ cores, .*`make bench", head)
    told = {row[0]: row[3] for row in cells(times)[2:]}
    (_, *workloads), _, *rows = cells(beside)
    assert workloads == ["true", "bash", "python", "node"] and len(rows) > 4
    for name, *ratios in rows:
        for workload, ratio in zip(workloads, ratios):
            assert told.get(f"{workload} {name}", "") == ratio, (workload, name)


def test_both_are_written_or_none(tmp_path):
    texts = list(pages())
    done, (readme, results) = write(tmp_path, texts, TABLES)
    assert done.returncode == 0, done
    assert block(readme) == ["today", "| a |", "| b |"] and block(results) == ["today", "| c |"]
    assert readme.split(BEGIN)[0] == texts[0].split(BEGIN)[0] and readme.split(END)[1] == texts[0].split(END)[1]
    done, after = write(tmp_path, [texts[0], "no marks"], TABLES)
    assert done.returncode != 0 and "RESULTS.md does not have the two marks once" in done.stderr
    assert after == [texts[0], "no marks"]


def test_the_short_table_has_the_races_with_other_tools():
    times = {
        "true bare": 2, "true launcher warm": 3, "true bwrap": 8, "true podman": 90, "go bare": 5, "go http cold": 6,
        "bash bare": 1, "bash http cold": 4, "bash launcher warm": 2, "bash bwrap": 3,
    }  # fmt: skip
    m = types.SimpleNamespace(first={n: [t] * 3 for n, t in times.items()}, setups={})
    assert cells(report.beside_table(m))[0] == ["p50, beside bare", "true", "bash"]
    assert cells(report.beside_table(m))[2:] == [
        ["launcher warm", "1.50x", "2.00x"], ["http cold", "", "4.00x"], ["bwrap", "4.00x", "3.00x"],
        ["podman", "45.00x", ""],
    ]  # fmt: skip
