"""`terracrew job cancel --all`: count the matching jobs, ask, then cancel them in batches of a few hundred."""

from typing import TYPE_CHECKING, Any

import click

from terracrew.cli.printing import output

if TYPE_CHECKING:
    from terracrew.client.http import Api


def cancel_all(api: "Api", filters: dict[str, str | None], mode: str, yes: bool, as_json: bool) -> None:
    """Cancel the jobs that match now. Jobs that are queued after the question was asked are not canceled."""
    body: dict[str, Any] = {name: value for name, value in filters.items() if value is not None}
    counted = api.post("/jobs/cancel", body | {"count_only": True})
    matching: int = counted["matching"]
    if matching and not yes:
        output.ask(f"Cancel {_words(matching, filters)}?", "No job was canceled.")
    ended = asked = seen = 0
    after = "" if matching else None
    while after is not None:
        done = api.post("/jobs/cancel", body | {"mode": mode, "up_to": counted["up_to"], "after": after})
        ended, asked, seen = ended + done["ended"], asked + done["asked"], seen + done["matching"]
        after = done["next"]
        if after is not None and not as_json:
            output.note(f"{seen} of {matching}")
    if as_json:
        return output.as_json({"matching": matching, "ended": ended, "asked": asked})
    if not matching:
        return click.echo("no job matches")
    return click.echo(f"canceled {ended} jobs" + (f"; requested the cancellation of {asked} more" if asked else ""))


def _words(count: int, filters: dict[str, str | None]) -> str:
    parts = [f"{count} job" + ("" if count == 1 else "s")]
    if filters.get("status"):
        parts.append(f"with status {filters['status']}")
    parts += [f"of the {noun} {filters[noun]}" for noun in ("module", "group") if filters.get(noun)]
    return " ".join(parts)
