"""Defines each figure, its goal, and the statistics from which it is computed."""

import math
from collections.abc import Sequence
from typing import TypeAlias

Goal: TypeAlias = tuple[float, float]
"""The least and the most that it may be."""


def _at_most(bound: float) -> Goal:
    return -math.inf, bound


def _at_least(bound: float) -> Goal:
    return bound, math.inf


GOALS: dict[str, Goal] = {
    "dispatch_ms.sqlite.1000.p50": _at_most(4),
    "dispatch_ms.sqlite.1000.p99": _at_most(12),
    "dispatch_ms.postgres.1000.p50": _at_most(8),
    "dispatch_ms.postgres.1000.p99": _at_most(20),
    "dispatch_ms.sqlite.5000.p50": _at_most(5),
    "dispatch_ms.sqlite.5000.p99": _at_most(20),
    "dispatch_ms.postgres.5000.p50": _at_most(10),
    "dispatch_ms.postgres.5000.p99": _at_most(35),
    "dispatcher_start_ms.docker.overhead": _at_most(150),
    "dispatcher_start_ms.kubernetes.overhead": _at_most(300),
    "plan_overhead_ms": _at_most(40),
    "plan_overhead_ms.terraform": _at_most(40),
    "plan_overhead_ms.pulumi": _at_most(40),
    "plan_overhead_ms.rtt50": _at_most(110),
    "plan_vs_hand": _at_most(1.3),
    "plan_vs_hand.unchanged": _at_most(1.0),
    "large_plan": _at_most(1.1),
    "large_plan.memory": _at_most(1.7),
    "plan_rate_share": _at_least(0.85),
    "cpu_ms_per_plan.executor": _at_most(14),
    "cpu_ms_per_plan.runner": _at_most(2),
    "cpu_ms_per_plan.server": _at_most(5),
    "git_fetch_ms.share": _at_most(1.3),
    "masking_lines_per_s": _at_least(500_000),
    "federation_per_s.sqlite": _at_least(500),
    "federation_per_s.postgres": _at_least(500),
    "delivery_ms.sqlite.p99": _at_most(50),
    "delivery_ms.postgres.p99": _at_most(50),
    "forge_poll_percent.sqlite": _at_most(5),
    "forge_poll_percent.postgres": _at_most(5),
    "start_s": _at_most(1.0),
    "wake_s.sqlite.p99": _at_most(1),
    "wake_s.postgres.p99": _at_most(1),
    "scale_cost_ratio": _at_most(1.3),
    "memory_mb.runner": _at_most(64),
    "log_lines_per_s": _at_least(300_000),
    "log_latency_ms.p50": _at_most(5),
    "log_latency_ms.p99": _at_most(25),
    "log_ingest.lines_per_s.sqlite": _at_least(300_000),
    "log_ingest.lines_per_s.postgres": _at_least(300_000),
    "log_viewers.p50_ms": _at_most(1_000),
    "log_viewers.cpu_us": _at_most(250),
    "demo_s.first": _at_most(60),
    "demo_s.second": _at_most(15),
    "failover_s.p50": _at_most(15),
    "failover_s.p99": _at_most(15),
    "dead_idle_s": _at_most(1),
    "silent_offline_s.offline": (60, 65),
    "silent_offline_s.requeued": (60, 65),
    "reconnect_s.sqlite.5000": _at_most(30),
    "reconnect_s.postgres.5000": _at_most(30),
    "connect_cpu_ms.sqlite.5000": _at_most(5),
    "connect_cpu_ms.postgres.5000": _at_most(5),
    "connect_cpu_ms.postgres.5000.postgres": _at_most(1.5),
    "idle_cpu_percent.sqlite": _at_most(10),
    "idle_cpu_percent.postgres": _at_most(10),
    "scale_heartbeat_lag_s.10000": _at_most(10),
    "scale_heartbeat_lag_s.100000": _at_most(10),
    "kb_per_runner.sqlite": _at_most(30),
    "kb_per_runner.postgres": _at_most(30),
    "loop_block_ms.sqlite": _at_most(20),
    "loop_block_ms.postgres": _at_most(20),
    "dispatch_ms.sqlite.lists.p99": _at_most(20),
    "dispatch_ms.postgres.lists.p99": _at_most(20),
    "claim_ms.sqlite.capped.p99": _at_most(10),
    "claim_ms.postgres.capped.p99": _at_most(10),
    "reasons_ms.sqlite.capped.p99": _at_most(50),
    "reasons_ms.postgres.capped.p99": _at_most(50),
    "db_outage_s": _at_most(5),
    "db_outage_s.failed": _at_most(0),
    "db_outage_s.lost_lines": _at_most(0),
}


def goals(found: dict[str, float]) -> dict[str, Goal]:
    """Return all goals, including those that depend on other figures of the same run."""
    made = dict(GOALS)
    if "jobs_per_s.procrastinate" in found:
        made["jobs_per_s.sqlite"] = _at_least(3 * found["jobs_per_s.procrastinate"])
        made["jobs_per_s.postgres"] = _at_least(2 * found["jobs_per_s.procrastinate"])
    if "log_lines_per_s" in found:
        made["log_lines_per_s.rtt50"] = _at_least(found["log_lines_per_s"] / 2)
    made |= {name: _at_most(50) for name in found if name.startswith("list_ms.") and name.endswith(".p99")}
    made |= {name: _at_most(100) for name in found if name.startswith("page_ms.") and name.endswith(".p99")}
    made |= {name: _at_most(300) for name in found if name.startswith("paint_ms.")}
    made |= {name: _at_most(200) for name in found if name.startswith("live_ms.")}
    made |= {name: _at_most(200) for name in found if name.startswith("log_search.first_ms.")}
    for kind in ("sqlite", "postgres"):
        for share in ("p50", "p99"):
            if few := found.get(f"dispatch_ms.{kind}.queued10.{share}"):
                made[f"dispatch_ms.{kind}.queued10000.{share}"] = _at_most(1.5 * few)
    return made


def is_met(value: float, goal: Goal) -> bool:
    return goal[0] <= value <= goal[1]


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that at least this share of the values does not exceed."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def median(values: Sequence[float]) -> float:
    return percentile(values, 0.5)


def table(found: dict[str, float]) -> str:
    bounds = goals(found)
    rows = [("figure", "value", "goal", "")]
    for name, value in found.items():
        goal = bounds.get(name)
        verdict = "" if goal is None else "met" if is_met(value, goal) else "MISSED"
        rows.append((name, _shown(value), _wanted(goal) if goal else "", verdict))
    width = [max(len(row[column]) for row in rows) for column in range(4)]
    return "\n".join(
        f"{name:<{width[0]}}  {value:>{width[1]}}  {goal:<{width[2]}}  {verdict}".rstrip()
        for name, value, goal, verdict in rows
    )


def _wanted(goal: Goal) -> str:
    least, most = goal
    if math.isinf(least):
        return f"≤ {_shown(most)}"
    return f"≥ {_shown(least)}" if math.isinf(most) else f"{_shown(least)} – {_shown(most)}"


def _shown(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.2f}"
