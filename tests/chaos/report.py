"""The table of faults and outcomes, and each violation with what happened around it."""

from collections import Counter
from typing import Any

from tests.chaos.checks import BY_ITSELF, TERMINAL, Found, Violation
from tests.chaos.installation import Installation

_COLUMNS = ("fault", "times", "attempts hit", "went on", "requeued", "fenced", "jobs ended", "explained", "violations")


def table(site: Installation, found: Found, violations: list[Violation]) -> str:
    """Return the table of what happened to the attempts that a fault hit, and to their jobs."""
    became = {f"{job['id']}.{one['number']}": _became(one) for job in found.jobs for one in job["attempts"]}
    ended = {job["id"]: job["status"] in TERMINAL for job in found.jobs}
    wrong = {one.attempt for one in violations}
    rows: list[tuple[str, ...]] = []
    faults = [entry for entry in site.timeline.entries if entry.kind == "fault"]
    for name in sorted({entry.what for entry in faults}):
        struck = [entry for entry in faults if entry.what == name]
        hit = {attempt for entry in struck for attempt in entry.attempts}
        went = Counter(became.get(attempt, "open") for attempt in hit)
        jobs = {attempt.rpartition(".")[0] for attempt in hit}
        open_jobs = sum(not ended.get(job, False) for job in jobs)
        counts = (
            len(struck),
            len(hit),
            went["went on"],
            went["requeued"],
            went["fenced"],
            len(jobs) - open_jobs,
            open_jobs,
        )
        rows.append((name, *map(str, counts), str(len(hit & wrong))))
    return _drawn(_COLUMNS, rows)


def _became(attempt: dict[str, Any]) -> str:
    """Tell whether the attempt ended by itself, was requeued without doubt, or was given up after its `begin`."""
    if attempt["outcome"] in BY_ITSELF:
        return "went on"
    if attempt["outcome"] == "lost" and attempt["begun_at"]:
        return "fenced"
    return "requeued" if attempt["outcome"] else "open"


def summary(site: Installation, found: Found) -> str:
    statuses = Counter(job["status"] for job in found.jobs)
    attempts = [one for job in found.jobs for one in job["attempts"]]
    outcomes = Counter(one["outcome"] or "open" for one in attempts)
    states = Counter(state["status"] for states in found.states.values() for state in states)
    witnesses = Counter(one.what for one in found.witnesses)
    rows = [
        ("jobs", str(len(found.jobs)), _counted(statuses)),
        ("attempts", str(len(attempts)), _counted(outcomes)),
        ("states", str(sum(states.values())), _counted(states)),
        ("witnesses", str(len(found.witnesses)), _counted(witnesses)),
        (
            "numbered lines",
            str(sum(one.printed for one in found.witnesses if one.what == "end")),
            "of mutations that came to their end",
        ),
    ]
    return _drawn(("what", "count", "of them"), rows)


def failures(found: Found) -> str:
    """Count why jobs failed, so that a product that fails every job does not look good."""
    reasons = Counter((job.get("message") or "")[:100] for job in found.jobs if job["status"] == "FAILED")
    return _drawn(("jobs", "failed because"), [(str(count), text) for text, count in reasons.most_common(12)])


def unfinished(found: Found) -> str:
    """The jobs that have not ended, and why they say they wait."""
    rows = [
        (f"{job['id']}.{job['attempt']}", job["status"], job["reason"]["text"] if job["reason"] else "")
        for job in found.jobs
        if job["status"] not in TERMINAL
    ]
    return _drawn(("job", "status", "reason"), rows)


def told(site: Installation, violation: Violation) -> str:
    lines = [f"VIOLATION of “{violation.rule}”: {violation.text}"]
    if violation.at or violation.attempt:
        words = (violation.attempt,) if violation.attempt else ()
        lines += [f"    {line}" for line in site.timeline.around(violation.at, words=words)[-25:]]
    return "\n".join(lines)


def _counted(found: "Counter[str]") -> str:
    return ", ".join(f"{count} {name}" for name, count in found.most_common())


def _drawn(columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [columns, tuple("---" for _ in columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
