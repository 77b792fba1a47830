# SPDX-License-Identifier: GPL-2.0-only
"""What is aimed at: one row an aim, and the rule by which it is met or missed.

A figure is taken from the measurements by the row's own function; None: what it needs was not
measured here, which the row then says. An aim is missed when it is missed by more than SLACK in
each of three repetitions; whatever it needs is measured again, and nothing else.
"""

import statistics
from dataclasses import dataclass, field
from typing import Callable

SLACK = 0.15
REPETITIONS = 3


@dataclass
class Aim:
    id: str
    text: str
    bound: float
    figure: Callable
    phase: str  # what measures it: rounds, flights, or a probe's name
    needs: tuple = ()  # contenders, for the phases that have such
    unit: str = "x"
    least: bool = False  # the bound is the least, not the most
    figures: list = field(default_factory=list)

    def over(self, value):
        """How far beyond the bound, 0.1 being a tenth."""
        return self.bound / value - 1 if self.least else value / self.bound - 1

    def look(self, m):
        """True: this must be measured again."""
        value = self.figure(m)
        if value is None:
            return False
        self.figures.append(value)
        return self.over(value) > SLACK

    def best(self):
        return (max if self.least else min)(self.figures) if self.figures else None

    def verdict(self):
        if not self.figures:
            return "not measured"
        over = min(self.over(v) for v in self.figures)
        if over <= 0:
            return "met"
        return "within 15 %" if over <= SLACK else "MISSED"


def p50(m, name):
    values = m.times.get(name)
    return statistics.median(values) if values else None


def ratio(name, base):
    def figure(m):
        return p50(m, name) / p50(m, base) if p50(m, name) and p50(m, base) else None

    return figure


def beside_tools(name, tools):
    def figure(m):
        found = [p50(m, f"true {t}") for t in tools if p50(m, f"true {t}")]
        return p50(m, name) / min(found) if found and p50(m, name) else None

    return figure


def per_second(name, base, at_once):
    def figure(m):
        found = m.flights.get(name, {}).get(at_once), m.flights.get(base, {}).get(at_once)
        return found[0] / found[1] if all(found) else None

    return figure


def overhead(workloads):
    def figure(m):
        pairs = [(p50(m, f"{w} http cold"), p50(m, f"{w} bare")) for w in workloads]
        pairs = [p for p in pairs if all(p)]
        return max(ours - bare for ours, bare in pairs) if pairs else None

    return figure


def probe(name):
    return lambda m: m.probes.get(name)


BEATEN = ("bwrap", "firejail", "runc", "podman")
MODES = ("bash", "python", "numpy", "node", "go")


def pair(name, base):
    return {"figure": ratio(name, base), "phase": "rounds", "needs": (name, base)}


def table():
    return [
        Aim("true-warm", "`true` from a waiting sandbox, beside bare fork+exec", 2.0,
            **pair("true launcher warm", "true bare")),
        Aim("true-cold", "`true` in a new sandbox, beside bare fork+exec", 4.0,
            **pair("true launcher cold", "true bare")),
        Aim("true-tools", "`true` in a new sandbox, beside the fastest of bwrap, firejail, runc, podman", 1.0,
            beside_tools("true launcher cold", BEATEN), "rounds",
            ("true launcher cold", *(f"true {t}" for t in BEATEN))),
        Aim("python-warm", "python `print(1)` by POST /execute, warm, beside bare python3", 0.35,
            **pair("python http warm", "python bare")),
        Aim("node-warm", "node by POST /execute, warm, beside bare node", 0.35,
            **pair("node http warm", "node bare")),
        Aim("bash-warm", "bash by POST /execute, warm, beside bare bash", 1.5,
            **pair("bash http warm", "bash bare")),
        Aim("numpy-warm", "python with numpy imported ahead, beside bare python3 with numpy", 0.1,
            **pair("numpy http warm", "numpy bare")),
        Aim("python-cold", "python by POST /execute, cold", 1.15, **pair("python http cold", "python bare")),
        Aim("node-cold", "node by POST /execute, cold", 1.1, **pair("node http cold", "node bare")),
        Aim("python-8-fork", "python per second, 8 in flight, SANDBOX_WARM_FORK=on, beside bare python3", 4.0,
            per_second("python http fork", "python bare", 8), "flights",
            ("python http fork", "python bare"), least=True),
        Aim("python-8", "python per second, 8 in flight, beside bare python3", 0.85,
            per_second("python http warm", "python bare", 8), "flights",
            ("python http warm", "python bare"), least=True),
        Aim("bash-8", "bash per second, 8 in flight: waiting sandboxes lose nothing to new ones", 1.0,
            per_second("bash http warm", "bash http cold", 8), "flights",
            ("bash http warm", "bash http cold"), least=True),
        Aim("overhead", "what any mode costs above the bare program, cold", 100.0, overhead(MODES), "rounds",
            tuple(f"{w} {k}" for w in MODES for k in ("http cold", "bare")), "ms"),
        Aim("go-run", "`go run` of hello world, beside the same outside with a warm cache", 1.2,
            **pair("go http cold", "go bare")),
        Aim("timeout", "from the deadline to the answer, median", 50.0, probe("timeout"), "timeout", unit="ms"),
        Aim("timeout-bomb", "the same with a fork bomb of 64 processes", 250.0, probe("timeout_bomb"),
            "timeout_bomb", unit="ms"),
        Aim("rss", "server and launcher together, idle, nothing waiting", 8192.0, probe("rss"), "rss", unit="KB"),
        Aim("growth", "p50 of the last runs beside that of the first", 1.0, probe("growth"), "growth"),
        Aim("layers-growth", "p50 of python with packages, 1 000 cached layers beside one", 1.0, probe("layers"),
            "layers"),
        Aim("sessions-rss", "an idle session, of 100", 1024.0, probe("sessions_rss"), "sessions", unit="KB"),
        Aim("sessions-growth", "p50 of bash, 100 idle sessions beside none", 1.0, probe("sessions_growth"),
            "sessions"),
        Aim("docker", "what SANDBOX_TYPE=docker costs above the program itself, the image present", 2000.0,
            probe("docker"), "docker", unit="ms"),
        Aim("sessions-stored", "p50 of bash, 1 000 stored sessions beside none", 1.0, probe("sessions_stored"),
            "sessions"),
        Aim("sessions-start", "the start of a server, 1 000 stored sessions beside none", 1.0,
            probe("sessions_start"), "sessions"),
        Aim("large", "10 MB in and 10 MB out", 150.0, probe("large"), "large", unit="ms"),
        Aim("linear", "10 MB beside 5 MB: linear is 2", 2.0, probe("linear"), "large"),
        Aim("beside", "`true` in bash while another's 10 MB of files are answered and stored, beside alone", 2.0,
            probe("beside"), "beside"),
    ]  # fmt: skip


# aims that no release can meet yet, because what they are about is not there
PENDING = {}
# and those that need a setting which the binary must know
SETTINGS = {"python-8-fork": "SANDBOX_WARM_FORK", "numpy-warm": "SANDBOX_PRELOAD"}
