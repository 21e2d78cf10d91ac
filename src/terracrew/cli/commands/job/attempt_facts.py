"""Prints what is known about an attempt that was cut short or lost, before a person decides about it."""

from typing import Any

import click

from terracrew.cli.printing import output
from terracrew.wording import plan_words

_MAX_RESOURCES_SHOWN = 30


def _began(known: dict[str, Any]) -> str:
    is_unknown = known["begun_at"] is None and known["may_have_begun"]
    return "not known: the database was set back since" if is_unknown else output.moment(known["begun_at"])


def show(known: dict[str, Any]) -> None:
    """Print what is known about an attempt to standard error, before a question is asked."""
    missing = "perhaps: the engine is not known to have ended by itself" if known["may_miss_state"] else "no"
    states = f"{known['states']}, the last one with serial {known['serial']}" if known["states"] else "none"
    is_over = known["ended_at"] is not None
    facts = [
        ("attempt", f"{known['attempt']} of job #{known['number']}"),
        ("runner", " · ".join(filter(None, (known["runner_path"], known["instance_name"])))),
        ("began to change", _began(known)),
        (
            "cut short" if is_over else "last contact",
            output.moment(known["ended_at"] if is_over else known["heard_at"]),
        ),
        ("by", known["reason"]),
        ("in the step", known["step"]),
        ("last line", known["last_line"]),
        ("states received", states),
        ("module's state", _module_state(known["module_state"])),
        ("state missing?", missing),
    ]
    output.facts(facts, err=True)
    _show_made(known)
    warn(known)


def warn(known: dict[str, Any]) -> None:
    """Say from when on nothing is known about an attempt, and where to see what to look for; nothing if everything is known."""
    if gap := known.get("gap"):
        output.note(f"warning: {gap['explanation']}\nwhat to look for: terracrew job lost-resources {known['number']}")


def _module_state(state: dict[str, Any] | None) -> str:
    if state is None:
        return "none"
    count = "" if state["resources"] is None else f", {state['resources']} resources"
    writer = "this attempt" if state["is_own"] else "an earlier attempt"
    return f"version {state['version']}, serial {state['serial']}{count}, written by {writer}"


def _show_made(known: dict[str, Any]) -> None:
    made: list[dict[str, Any]] = known["made"]
    if not made:
        return
    output.note("According to its log, after the last state that arrived, it")
    for each in made[-_MAX_RESOURCES_SHOWN:]:
        name = f"  [id={output.text(each['id'])}]" if each["id"] else ""
        click.echo(f"  {plan_words.LOGGED_CHANGES[each['action']]:20} {output.text(each['address'])}{name}", err=True)
    if len(made) > _MAX_RESOURCES_SHOWN or known["is_made_cut"]:
        click.echo("  … and more before that: see its log", err=True)
