"""Prints docs/job-statuses.md from the table that the server goes by."""

from terracrew.server.jobs.model import ACTIVE, TERMINAL, TRANSITIONS

HEAD = """# What may become of a job

Made by `scripts/statuses.py` from `TRANSITIONS` in `server/jobs/model.py`. Every way back to QUEUED is a new attempt.
An attempt owns the job while it is {active}; {terminal} are for good.

```mermaid
stateDiagram-v2
    [*] --> QUEUED"""


def page() -> str:
    words = {"active": _listed(ACTIVE), "terminal": _listed(TERMINAL)}
    edges = [f"    {a} --> {b}" for a, ends in TRANSITIONS.items() for b in sorted(ends)]
    ends = [f"    {status} --> [*]" for status in TRANSITIONS if status in TERMINAL]
    return "\n".join([HEAD.format(**words), *edges, *ends, "```", ""])


def _listed(statuses: frozenset[str]) -> str:
    *first, last = sorted(statuses)
    return f"{', '.join(first)} {'and' if len(first) > 1 else 'or'} {last}"


if __name__ == "__main__":
    print(page(), end="")
