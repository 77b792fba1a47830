# SPDX-License-Identifier: GPL-2.0-only
"""What was measured, for people (Markdown) and for programs (JSON)."""

import json
import statistics

import aims

KINDS = {"bare": "bare", "launcher": "ours", "http": "ours"}


def p95(values):
    return sorted(values)[min(len(values) - 1, int(len(values) * 0.95))]


def _workloads(m):
    return list(dict.fromkeys(name.split(" ")[0] for name in m.first))


def _rows(m, workload):
    """(p50, name, p95, ratio, setup) of a workload's contenders, the fastest first."""
    base = statistics.median(m.first[f"{workload} bare"])
    rows = []
    for name, values in m.first.items():
        if name.split(" ")[0] != workload:
            continue
        p50, setup = statistics.median(values), m.setups.get(name)
        setup = round(statistics.median(setup)) if setup else None
        rows.append((p50, name, p95(values), p50 / base, setup))
    return sorted(rows)


def groups(m):
    """For the chart."""
    return [
        (w, [(n.split(" ", 1)[1], p, KINDS.get(n.split(" ")[1], "other")) for p, n, *_ in _rows(m, w)])
        for w in _workloads(m)
    ]


def not_built(settings):
    return {
        a.id: f"{a.text}: needs {aims.SETTINGS[a.id]}, which this binary does not have"
        for a in aims.table()
        if aims.SETTINGS.get(a.id) not in (None, *settings)
    }


def _number(value):
    return f"{value:.0f}" if value >= 100 else f"{value:.2f}"


def _grid(heads, rows):
    """A Markdown table that is readable as it stands."""
    rows = [[str(c) for c in row] for row in rows]
    wide = [max(len(r[i]) for r in [heads, *rows]) for i in range(len(heads))]

    def line(cells):
        padded = [c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(cells, wide))]
        return "| " + " | ".join(padded) + " |"

    rule = "|" + "|".join("-" * (w + 1) + ("-" if i == 0 else ":") for i, w in enumerate(wide)) + "|"
    return "\n".join([line(heads), rule, *(line(r) for r in rows)])


def aims_table(rows):
    cells = []
    for a in rows:
        bound = ("at least " if a.least else "") + _number(a.bound)
        figure = "-" if a.best() is None else _number(a.best())
        cells.append((a.text, f"{figure} {a.unit}", f"{bound} {a.unit}", a.verdict()))
    return _grid(("aim", "measured", "bound", ""), cells)


def contenders_table(m):
    cells = []
    for w in _workloads(m):
        for p50, name, worst, ratio, setup in _rows(m, w):
            cells.append((name, f"{p50:.2f}", f"{worst:.2f}", f"{ratio:.2f}x", "" if setup is None else setup))
    return _grid(("one at a time", "p50 ms", "p95 ms", "beside bare", "setup µs"), cells)


def beside_table(m):
    """p50 beside the bare program: of what takes part in every race with other tools."""
    ratios = {}
    races = [w for w in _workloads(m) if any(n.split(" ")[1] not in KINDS for _, n, *_ in _rows(m, w))]
    for w in races:
        for _, name, _, ratio, _ in _rows(m, w):
            ratios.setdefault(name.split(" ", 1)[1], {})[w] = ratio
    ratios.pop("bare", None)
    order = sorted(ratios, key=lambda n: (n.split(" ")[0] not in KINDS, max(ratios[n].values())))
    cells = [(n, *(f"{ratios[n][w]:.2f}x" if w in ratios[n] else "" for w in races)) for n in order]
    return _grid(("p50, beside bare", *races), cells)


def flights_table(m):
    widths = sorted({n for at in m.flights.values() for n in at})
    cells = []
    for name, at in m.flights.items():
        base = m.flights.get(f"{name.split(' ')[0]} bare", {})
        row = [name]
        for n in widths:
            beside = f" ({at[n] / base[n]:.2f}x)" if n in at and base.get(n) and not name.endswith(" bare") else ""
            row.append(f"{at[n]:.0f}{beside}" if n in at else "")
        cells.append(row)
    return _grid(("runs a second", *(f"{n} in flight" for n in widths)), cells)


def _lists(m, missing, pending):
    out = [f"Memory of an idle server, KB: {', '.join(f'{n} {sum(kb)} ({len(kb)})' for n, kb in m.memory.items())}"]
    if m.growth:
        g = m.growth
        out.append(
            f"{g['runs']} runs in a row: p50 {g['first_ms']:.2f} ms at first, {g['last_ms']:.2f} ms at last;"
            f" all processes {g['before_kb']} KB before, {g['after_kb']} KB after"
        )
    out += [f"Waiting sandbox not ready, asked again: {n} {c} times" for n, c in m.missed.items()]
    out += [f"Not measured: {name}: {why}" for name, why in missing.items()]
    out += [f"Pending: {name}: {text}" for name, text in pending.items()]
    return "\n".join(f"- {line}" for line in out)


def write(build, facts, m, rows, missing, pending):
    steps = _grid(("step", "µs"), [(n, f"{us:.0f}") for n, us in m.steps.items()])
    busy = f" (load {facts['load']:.1f} at its start)" if facts["load"] > 0.5 else ""
    head = f"{facts['date']}, {facts['machine']}; isolation {facts['isolation']}; `{facts['command']}`{busy}"
    parts = [head, aims_table(rows), contenders_table(m), flights_table(m), steps, _lists(m, missing, pending)]
    text = "\n\n".join(parts) + "\n\n```\n" + m.filters.rstrip("\n") + "\n```\n"
    with open(build + "/bench.md", "w", encoding="utf-8") as f:
        f.write(text)
    contenders = {
        n: {"p50_ms": p, "p95_ms": w, "ratio": r, "setup_us": s}
        for workload in _workloads(m)
        for p, n, w, r, s in _rows(m, workload)
    }
    found = {
        **facts,
        "aims": {
            a.id: {
                "text": a.text, "bound": a.bound, "unit": a.unit, "least": a.least,
                "figures": a.figures, "verdict": a.verdict(),
            }
            for a in rows
        },
        "contenders": contenders,
        "per_second": m.flights,
        "steps_us": m.steps,
        "memory_kb": m.memory,
        "growth": m.growth,
        "missed": m.missed,
        "missing": missing,
        "pending": pending,
        "readme": {"head": head, "aims": aims_table(rows), "beside": beside_table(m),
                   "contenders": contenders_table(m)},
    }  # fmt: skip
    with open(build + "/bench.json", "w", encoding="utf-8") as f:
        json.dump(found, f, indent=1)
    return text
