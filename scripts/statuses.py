"""Prints docs/job-statuses.md from the table of transitions that the server uses."""

from terracrew.api.jobs import ACTIVE, TERMINAL, TRANSITIONS

HEAD = """# The statuses of a job

`scripts/statuses.py` generates this page from `TRANSITIONS` in `api/jobs.py`. Every return to QUEUED leads to a new attempt.
An attempt owns the job while it is {active}; {terminal} are final.

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
