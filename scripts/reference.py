"""Generates the pages of the site that are read from the code: the API, commands, actions, metrics, events and exit codes.

They are not in the repository, because nearly every change of the product would change them, too. `site_pages.py` puts them into
docs/reference of the site. What a server and its `--help` say of themselves is made from the same code.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import click

from terracrew import errors
from terracrew.api.notifications import DEFAULT_EVENTS, EVENTS
from terracrew.cli.commands.job import follow
from terracrew.cli.main import cli
from terracrew.server.api.runs.live import TOPICS
from terracrew.server.app import make_unattached_app
from terracrew.server.dashboard import api_reference
from terracrew.server.dashboard.api_reference import Operation, Section
from terracrew.server.openapi.commands import ALSO, COMMANDS, COMMANDS_ALONE, WITHOUT_COMMAND
from terracrew.server.openapi.document import completed
from terracrew.server.openapi.fields import FieldRow
from terracrew.server.openapi.pages import PAGES, PAGES_ALONE, WITHOUT_PAGE
from terracrew.wording.audit_words import SENTENCES
from terracrew.wording.notification_words import EVENT_MEANINGS

SOURCES = Path(__file__).resolve().parents[1] / "src" / "terracrew"
_METRIC = re.compile(r"terracrew_[a-z_]+")
_MAKERS = ("Counter", "Gauge", "Histogram", "_counter", "_gauge")


def pages() -> dict[str, str]:
    """Return the pages by their names, in the order of the navigation."""
    found = document()
    api = {f"api/{_slug(each.name)}": _section_page(each) for each in api_reference.sections(found) if each.operations}
    return {
        "actions": _actions(found),
        "api": _api_index(found),
        **api,
        "commands": _commands(),
        "metrics": _metrics(),
        "events": _events(),
        "exit-codes": _exit_codes(),
    }


@cache
def document() -> dict[str, Any]:
    return completed(make_unattached_app().openapi_schema.to_schema())


def operations(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the operations of the document by method and path."""
    return {
        f"{method.upper()} {path}": operation
        for path, methods in found["paths"].items()
        for method, operation in methods.items()
    }


def _actions(found: dict[str, Any]) -> str:
    also: dict[str, list[str]] = {}
    for line, operation in ALSO.items():
        also.setdefault(operation, []).append(line)
    rows: dict[str, list[str]] = {}
    for name, each in operations(found).items():
        lines = [COMMANDS[name], *also.get(name, [])] if name in COMMANDS else []
        commands = ", ".join(f"`{line}`" for line in lines) or f"— it {WITHOUT_COMMAND[name]}"
        is_for_nobody = name in WITHOUT_COMMAND and name not in PAGES
        without = "— for the same reason" if is_for_nobody else f"— it {WITHOUT_PAGE.get(name, '')}"
        shown = ", ".join(_page_words(page) for page in PAGES.get(name, ())) or without
        link = f"[{each['summary']}](api/{_slug(each['tags'][0])}.md#{_anchor(each['summary'])})"
        rows.setdefault(each["tags"][0], []).append(
            f"| {link}<br>`{name.replace('/api/v1', '')}` | {commands} | {shown} |"
        )
    parts = [
        "# Actions: API, command line and pages\n",
        "What one of them can do, the others can do as well. This table is generated, and tests hold it to the code: every operation, "
        "every command and every address of the dashboard is in it, a command can make the request of its operation, and a form calls "
        "the same function of the server as its operation. Where one has no counterpart, the reason stands there.\n",
    ]
    for tag, lines in rows.items():
        parts += [f"## {_capital(tag)}\n", "| operation | command | page |", "|---|---|---|", *lines, ""]
    parts += ["## Commands that need no operation\n", "| command | it … |", "|---|---|"]
    parts += [f"| `{line}` | {reason} |" for line, reason in COMMANDS_ALONE.items()]
    parts += ["", "## Pages that need no operation\n", "| page | it … |", "|---|---|"]
    parts += [f"| {_page_words(page)} | {reason} |" for page, reason in PAGES_ALONE.items()]
    return "\n".join([*parts, ""])


def _page_words(page: str) -> str:
    method, _, path = page.partition(" ")
    return f"`{path}`" if method == "GET" else f"`{path}` (form)"


def _api_index(found: dict[str, Any]) -> str:
    rows = [
        f"| [{_capital(each.name)}](api/{_slug(each.name)}.md) | {each.text} | {len(each.operations)} |"
        for each in api_reference.sections(found)
        if each.operations
    ]
    text = found["info"]["description"]
    note = "A server describes its own API at `/api`, and for programs at `/openapi.json`."
    return "\n".join(
        ["# The API\n", text, "", note, "", "| section | what it is about | operations |", "|---|---|---|", *rows, ""]
    )


def _section_page(section: Section) -> str:
    parts = [f"# API: {section.name}\n", section.text, ""]
    for each in section.operations:
        parts += _operation(each)
    return "\n".join(parts)


def _operation(each: Operation) -> list[str]:
    parts = [f"## {each.summary}\n", f"`{each.method} {each.path}`\n", _plain(str(each.description)), ""]
    if each.command:
        parts += [f"Command: `{each.command}`\n"]
    for title, rows in (
        ("Parameters", each.parameters),
        ("Body", each.body),
        ("Answer", [row for row in each.answer if not row.depth]),
    ):
        if rows:
            head = f"**{title}**" + (f" `{each.answer_name}`" if title == "Answer" else "")
            parts += [f"{head}\n", "| field | type | what it is |", "|---|---|---|", *map(_field, rows), ""]
    return parts


def _field(row: FieldRow) -> str:
    name = f"{'· ' * row.depth}`{row.name}`{' (required)' if row.is_required else ''}"
    text = [row.text, *([f"One of {', '.join(row.choices)}."] if row.choices else [])]
    text += [f"Default: `{row.default}`."] if row.default else []
    return f"| {name} | {_cell(row.kind)} | {_cell(' '.join(each for each in text if each))} |"


def _plain(markup: str) -> str:
    """Return the paragraphs of a description, which `api_reference.prose` has marked, as Markdown."""
    text = markup.replace("<p>", "").replace("</p>", "\n\n").replace("<code>", "`").replace("</code>", "`")
    return text.replace("&#34;", '"').replace("&#39;", "'").strip()


def _commands() -> str:
    head = "Every command with its options. [The command line](../cli.md) says what all of them have in common."
    parts = ["# Commands\n", head, ""]
    for words, command in sorted(_leaves(cli, ())):
        usage = " ".join(command.collect_usage_pieces(click.Context(command)))
        parts += [
            f"## {' '.join(words)}\n",
            f"    terracrew {' '.join(words)} {usage}\n",
            _help(command.help or ""),
            "",
        ]
        options = [each for each in command.params if isinstance(each, click.Option) and not each.hidden]
        rows = [f"| {_option(each)} | {_cell(each.help or '')} |" for each in options]
        parts += ["| option | what it does |", "|---|---|", *rows, ""] if rows else []
        parts += [f"{line}\n" for line in [_help(command.epilog or "")] if line]
    return "\n".join(parts)


def _leaves(at: click.Command, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    if not isinstance(at, click.Group):
        yield words, at
        return
    context = click.Context(at)
    for name in at.list_commands(context):
        if (inner := at.get_command(context, name)) and not inner.hidden:
            yield from _leaves(inner, (*words, name))


def _option(option: click.Option) -> str:
    names = ", ".join(f"`{name}`" for name in [*option.opts, *option.secondary_opts])
    value = "" if option.is_flag or option.count else f" {_cell(option.make_metavar(click.Context(cli)))}"
    return f"{names}{value}"


def _help(text: str) -> str:
    """Return the help of a command as Markdown: what `\\b` keeps as it is, is a block of code."""
    parts = [each.strip("\n") for each in text.split("\n\n")]
    shown = [
        "\n".join(["```text", each.removeprefix("\b").strip("\n"), "```"])
        if each.startswith("\b")
        else _cell(" ".join(each.split()))
        for each in parts
        if each.strip()
    ]
    return "\n\n".join(shown)


def metrics() -> dict[str, str]:
    """Return the metrics with their meanings, from the calls that make them."""
    found: dict[str, str] = {}
    for file in sorted((SOURCES / "server").rglob("*.py")):
        text = file.read_text()
        if "terracrew_" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.Call) or len(node.args) < 2 or _name(node.func) not in _MAKERS:
                continue
            name, meaning = node.args[:2]
            if (
                isinstance(name, ast.Constant)
                and isinstance(meaning, ast.Constant)
                and _METRIC.fullmatch(str(name.value))
            ):
                is_counter = _name(node.func) in ("Counter", "_counter")
                found[f"{name.value}{'_total' if is_counter else ''}"] = str(meaning.value)
    return found


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _metrics() -> str:
    rows = [f"| `{name}` | {_cell(meaning)} |" for name, meaning in sorted(metrics().items())]
    head = (
        "What `/metrics` of a server has, beside the figures of its process. [Operations](../operations.md#metrics) says which of "
        "them are of one server and which of the database, and what to be warned of."
    )
    return "\n".join(["# Metrics\n", head, "", "| metric | meaning |", "|---|---|", *rows, ""])


def _events() -> str:
    told = [
        f"| `{each}` | {_cell(EVENT_MEANINGS[each])} | {'yes' if each in DEFAULT_EVENTS else ''} |" for each in EVENTS
    ]
    audited = [f"| `{action}` | {_cell(''.join(parts))} |" for action, parts in sorted(SENTENCES.items())]
    return "\n".join(
        [
            "# Events and audited actions\n",
            "## What notifications tell\n",
            "[Notifications](../notifications.md) has the messages.\n",
            *("| event | when | unless a channel says otherwise |", "|---|---|---|", *told, ""),
            "## The stream of changes\n",
            "`GET /api/v1/events` sends server-sent events with these names. Their data is the id of what has changed, or `all`.\n",
            *(f"- `{topic}`" for topic in TOPICS),
            "",
            "## Actions in the audit log\n",
            "The name of an action, and the words in which the page and the command line say it.\n",
            *("| action | in words |", "|---|---|", *audited, ""),
        ]
    )


def _exit_codes() -> str:
    kinds = [errors.TerracrewError, *_below(errors.TerracrewError)]
    rows = [
        f"| `{kind.code}` | {kind.status} | {kind.exit_code} | {'yes' if kind.is_transient else ''} |"
        for kind in {each.code: each for each in kinds}.values()
    ]
    jobs = [f"| {status} | {code} |" for status, code in follow.EXIT_CODES.items()]
    return "\n".join(
        [
            "# Errors and exit codes\n",
            "[The command line](../cli.md#exit-codes) says what each exit code means.\n",
            "## Errors\n",
            "`code` is in the problem document of the API and in `--json`.\n",
            *("| code | HTTP status | exit code | may succeed later by itself |", "|---|---|---|---|", *rows, ""),
            "## Jobs that were waited for\n",
            *("| status | exit code |", "|---|---|", *jobs),
            f"| AWAITING_APPROVAL, with `--stop-at-approval` | {follow.AWAITING_APPROVAL_EXIT_CODE} |",
            "",
        ]
    )


def _below(kind: type[errors.TerracrewError]) -> Iterator[type[errors.TerracrewError]]:
    for each in kind.__subclasses__():
        if each.__module__ == errors.__name__:
            yield each
            yield from _below(each)


def _cell(text: str) -> str:
    """Return a text for a cell of a table: what is not code is escaped."""
    parts = re.split(r"(`[^`]*`)", " ".join(text.split()))
    shown = [part if part.startswith("`") else re.sub(r"([\\<>*_\[\]])", r"\\\1", part) for part in parts]
    return "".join(shown).replace("|", "\\|")


def _slug(name: str) -> str:
    return name.replace(" ", "-")


def _anchor(heading: str) -> str:
    """Return the anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
