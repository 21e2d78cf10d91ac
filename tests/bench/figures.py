"""The figures: what each name means, the goal that it has, and the statistics that they are made of."""

import math
from collections.abc import Sequence

GOALS: dict[str, tuple[str, float]] = {
    "dispatch_ms.sqlite.1000.p99": ("≤", 10),
    "dispatch_ms.postgres.1000.p99": ("≤", 10),
    "plan_overhead_ms": ("≤", 30),
    "plan_overhead_ms.rtt50": ("≤", 150),
    "plan_rate_share": ("≥", 0.85),
    "start_s": ("≤", 1.5),
    "memory_mb.runner": ("≤", 40),
    "log_lines_per_s": ("≥", 300_000),
    "log_latency_ms.p50": ("≤", 5),
    "log_latency_ms.p99": ("≤", 25),
    "demo_s.first": ("≤", 60),
    "demo_s.second": ("≤", 15),
}


def goals(found: dict[str, float]) -> dict[str, tuple[str, float]]:
    """The goals, with those that depend on what else was measured in the same run."""
    made = dict(GOALS)
    if "jobs_per_s.procrastinate" in found:
        for kind in ("sqlite", "postgres"):
            made[f"jobs_per_s.{kind}"] = ("≥", 5 * found["jobs_per_s.procrastinate"])
    if "log_lines_per_s" in found:
        made["log_lines_per_s.rtt50"] = ("≥", found["log_lines_per_s"] / 2)
    return made


def is_met(value: float, goal: tuple[str, float]) -> bool:
    sign, bound = goal
    return value <= bound if sign == "≤" else value >= bound


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of them does not exceed."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def median(values: Sequence[float]) -> float:
    return percentile(values, 0.5)


def table(found: dict[str, float]) -> str:
    bounds = goals(found)
    rows = [("figure", "value", "goal", "")]
    for name, value in found.items():
        goal = bounds.get(name)
        verdict = "" if goal is None else "met" if is_met(value, goal) else "MISSED"
        rows.append((name, _shown(value), f"{goal[0]} {_shown(goal[1])}" if goal else "", verdict))
    width = [max(len(row[column]) for row in rows) for column in range(4)]
    return "\n".join(
        f"{name:<{width[0]}}  {value:>{width[1]}}  {goal:<{width[2]}}  {verdict}".rstrip()
        for name, value, goal, verdict in rows
    )


def _shown(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.2f}"
