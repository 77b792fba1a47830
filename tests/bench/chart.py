# SPDX-License-Identifier: GPL-2.0-only
"""A bar chart as SVG: one group a workload, a bar a contender, on a logarithmic scale."""

import html
import math

ROW, LEFT, RIGHT, TOP = 18, 170, 90, 40
WIDTH = 860
COLOURS = {"bare": "#888888", "ours": "#1f6fb2", "other": "#c9a13b"}


def bars(title, groups, unit):
    """groups: [(heading, [(label, value, kind)])], kind a key of COLOURS."""
    values = [v for _, rows in groups for _, v, _ in rows]
    low = 10 ** math.floor(math.log10(min(values)))
    high = 10 ** math.ceil(math.log10(max(values) * 1.001))
    height = TOP + sum(ROW * (len(rows) + 2) for _, rows in groups) + 30
    span = WIDTH - LEFT - RIGHT

    def x(value):
        return LEFT + span * math.log(value / low) / math.log(high / low)

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        f'<text x="10" y="22" font-size="15">{html.escape(title)}</text>',
    ]
    tick = low
    while tick <= high * 1.001:
        out.append(
            f'<line x1="{x(tick):.1f}" x2="{x(tick):.1f}" y1="{TOP}" y2="{height - 24}" stroke="#dddddd"/>'
            f'<text x="{x(tick):.1f}" y="{height - 8}" text-anchor="middle">{tick:g} {unit}</text>'
        )
        tick *= 10
    y = TOP
    for heading, rows in groups:
        y += ROW
        out.append(f'<text x="10" y="{y}" font-weight="bold">{html.escape(heading)}</text>')
        for label, value, kind in rows:
            y += ROW
            out.append(
                f'<text x="{LEFT - 6}" y="{y}" text-anchor="end">{html.escape(label)}</text>'
                f'<rect x="{LEFT}" y="{y - 11}" width="{max(x(value) - LEFT, 1):.1f}" height="13" '
                f'fill="{COLOURS[kind]}"/>'
                f'<text x="{x(value) + 5:.1f}" y="{y}">{value:.2f}</text>'
            )
        y += ROW
    return "\n".join(out + ["</svg>", ""])
