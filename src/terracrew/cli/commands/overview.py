"""`terracrew overview`: what needs you, what waits, and figures of jobs and runners, within 80 columns."""

import click

from terracrew.api.failures import FAILURE_CLASSES
from terracrew.api.overview import Need, Overview, OverviewSpan
from terracrew.cli.arguments import name_completion
from terracrew.cli.connection.target import Target
from terracrew.cli.printing import output
from terracrew.wording import overview_words

MAX_BAR_CHARACTERS = 30
MAX_TEXT_CHARACTERS = 76
_GREEN, _RED = "█", "▒"


@click.command("overview", epilog=output.examples("terracrew overview", "terracrew overview shop/prod --span week"))
@click.argument("place", required=False, default="", shell_complete=name_completion.groups)
@click.option("--span", type=click.Choice(["day", "week", "month"]), default="day", help="How far back the figures go.")
@click.option("--mine", is_flag=True, help="Only the groups at which you have a role of your own.")
@output.with_target
def overview(target: Target, place: str, span: OverviewSpan, mine: bool) -> output.CommandResult:
    """Show what needs you, how jobs and runners did, and what happened last and comes next, in the group PLACE or everywhere."""
    found = target.api().get("/overview", Overview, place=place, span=span, mine="true" if mine else None)
    return output.CommandResult(found, lambda: _show(found))


def _show(found: Overview) -> None:
    _needs(found)
    total, queue = found.total, found.queue
    click.echo()
    click.echo(click.style(f"In {overview_words.SPANS[found.span]}", bold=True))
    waiting = f"{queue.waiting:,} waiting"
    if queue.oldest_number is not None and queue.oldest_since is not None:
        waiting += f" (the longest: #{queue.oldest_number}, {output.age(queue.oldest_since)})"
    counts = [(name, getattr(total, f"failed_{name}")) for name in FAILURE_CLASSES]
    failed = ", ".join(f"{count:,} {name}" for name, count in counts if count)
    output.facts(
        [
            ("now", f"{queue.running:,} running, {waiting}, {queue.awaiting_approval:,} to approve"),
            ("finished", f"{total.finished:,}: {total.succeeded:,} succeeded, {total.failed:,} failed"),
            ("stopped", f"{total.canceled:,} canceled, {total.declined:,} declined"),
            ("failed by", failed),
            (
                "wait",
                f"{overview_words.wait(total.wait_p50_seconds)} p50, {overview_words.wait(total.wait_p95_seconds)} p95",
            ),
            ("runners", f"{overview_words.percent(total.utilisation)} of their slots occupied"),
        ]
    )
    click.echo()
    _bars(found)
    _last_and_next(found)
    if found.is_partial:
        output.note("You see a part of this place: the figures are those of groups that you see as a whole.")


def _needs(found: Overview) -> None:
    if not found.needs:
        click.echo("Nothing needs you.")
        return
    click.echo(click.style(f"{len(found.needs)}{'+' if found.more_needs else ''} need you", bold=True))
    for each in found.needs:
        number = f" #{each.job_number}" if each.job_number is not None else ""
        since = f", {output.age(each.since)}" if each.since else ""
        click.echo(f"{overview_words.NEEDS[each.kind]}: {each.path}{number}{since}")
        if words := _text(each):
            click.echo(click.style(f"  {words}", dim=True))
    for kind in found.more_needs:
        output.note(f"There are more: {overview_words.NEEDS[kind].lower()}")


def _last_and_next(found: Overview) -> None:
    """Show what has happened last, and what comes next, with one line each."""
    if found.activity:
        click.echo()
        click.echo(click.style("Recent activity", bold=True))
    for each in found.activity:
        what = f"{each.path} {each.text}, by {each.who}" if each.status else f"{each.who} {each.text}"
        click.echo(_line(f"{output.age(each.at):>9}  {what}"))
    if found.coming_up:
        click.echo()
        click.echo(click.style("Coming up", bold=True))
    for each in found.coming_up:
        at = f"{each.at.astimezone():%d %b %H:%M}"
        click.echo(_line(f"{at:>12}  {each.text}{f', {each.path}' if each.path else ''}"))


def _text(need: Need) -> str:
    """Return the reason as one line of a bounded length: the error of an engine may be long."""
    return _line(need.text, strip=True)


def _line(text: str, *, strip: bool = False) -> str:
    words = " ".join(text.split()) if strip else text.replace("\n", " ")
    return words if len(words) <= MAX_TEXT_CHARACTERS else f"{words[: MAX_TEXT_CHARACTERS - 1]}…"


def _bars(found: Overview) -> None:
    """Draw the jobs of each part as a bar, the failed ones at its end."""
    most = max((each.finished for each in found.parts), default=0)
    if not most:
        return
    for each in found.parts:
        length = -(-each.finished * MAX_BAR_CHARACTERS // most)
        bad = min(length, -(-each.failed * MAX_BAR_CHARACTERS // most))
        bar = click.style(_GREEN * (length - bad), fg="green") + click.style(_RED * bad, fg="red")
        bar += " " * (MAX_BAR_CHARACTERS - length)
        label = overview_words.moment(each.starts_at, found.span).rjust(9)
        counts = f"{each.finished:,}" + (f", {each.failed:,} failed" if each.failed else "")
        click.echo(f"{label} {bar} {counts}".rstrip())
