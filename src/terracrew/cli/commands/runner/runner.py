"""`terracrew runner`: starts, registers and manages runners."""

from typing import Any

import click

from terracrew.cli.arguments import name_completion
from terracrew.cli.connection.target import Target, pass_target
from terracrew.cli.lazy import LazyGroup
from terracrew.cli.printing import output
from terracrew.client.address import is_loopback
from terracrew.errors import Invalid


@click.group(
    cls=LazyGroup, lazy={"start": ("terracrew.cli.commands.runner.start:start", "Start a runner on this machine.")}
)
def runner() -> None:
    """Start, register and manage runners. PATH is a runner's path (`group/name`) or id."""


@runner.command("list")
@click.option("--status", type=click.Choice(["ONLINE", "OFFLINE", "DRAINING"], case_sensitive=False))
@click.option("--group", metavar="PATH", shell_complete=name_completion.groups, help="Only runners of this group.")
@output.json_option
@pass_target
def list_runners(target: Target, status: str | None, group: str | None, as_json: bool) -> None:
    """List the runners."""
    items = list(target.api().list("/runners", status=status, group=group))
    if as_json:
        return output.as_json(items)
    rows = [
        (
            i["path"],
            i["type"],
            _status(i),
            i.get("version"),
            _jobs(i),
            output.age(i["created_at"]),
        )
        for i in items
    ]
    columns = ("PATH", "TYPE", "STATUS", "VERSION", "JOBS", "CREATED")
    return output.table(columns, rows, empty="no runners: `terracrew runner register NAME`")


@runner.command("show")
@click.argument("path", shell_complete=name_completion.runners)
@output.json_option
@pass_target
def show_runner(target: Target, path: str, as_json: bool) -> None:
    """Show the runner PATH, its instances and its assignments."""
    api = target.api()
    found = api.get(_place(path))
    assignments = api.get(f"{_place(path)}/assignments")["items"]
    if as_json:
        return output.as_json({**found, "assignments": assignments})
    output.facts(
        [
            ("path", found["path"]),
            ("id", found["id"]),
            ("type", found["type"]),
            ("status", _status(found)),
            ("disabled", found["is_disabled"] or None),
            ("jobs", _jobs(found).replace("/", " of ")),
            ("limit", _limit(found)),
            ("tags", found["tags"]),
            ("configured", {name: value for name, value in found.get("configuration", {}).items() if value}),
            ("assigned to", [each["path"] or "(everything)" for each in assignments]),
            ("created", output.age(found["created_at"])),
        ]
    )
    if instances := found.get("instances"):
        click.echo()
        rows = [
            (i["name"], _instance_status(i), i.get("version"), i.get("capacity"), output.age(i.get("heard_at")))
            for i in instances
        ]
        output.table(("INSTANCE", "STATUS", "VERSION", "CAPACITY", "LAST CONTACT"), rows, empty="")
    return None


def _limit(runner: dict[str, Any]) -> str:
    """Say how many jobs each instance may run. What its own settings allow is known only while an instance is connected."""
    text = f"at most {runner['max_jobs']} jobs on each instance"
    instances: list[dict[str, Any]] = runner.get("instances") or []
    is_known = any(each.get("capacity") for each in instances)
    return text if is_known else f"{text}, and no more than its own settings allow"


@runner.command("register")
@click.argument("name")
@click.option(
    "--group",
    default="",
    metavar="PATH",
    shell_complete=name_completion.groups,
    help="The group that it belongs to; by default the organization.",
)
@click.option("--max-jobs", type=click.IntRange(min=1), help="How many jobs each instance may run at once.")
@click.option("--tag", "tags", multiple=True, help="A tag. Can be repeated.")
@click.option("--multiple", "allow_multiple_instances", is_flag=True, help="Allow several instances.")
@click.option(
    "--replace", is_flag=True, help="Give an existing runner a new token; the old one becomes invalid at once."
)
@output.json_option
@pass_target
def register(target: Target, name: str, as_json: bool, **given: Any) -> None:
    """Register a runner called NAME and print the commands that start it. Its token is shown only once."""
    made = target.api().post(
        "/runners/register", {"name": name} | {key: value for key, value in given.items() if value}
    )
    if as_json:
        return output.as_json(made)
    output.note(f"registered {made['path']}. Run this on the runner's machine; the token is shown only once:")
    if is_loopback(made["environment"].get("TERRACREW_API_URL", "")):
        output.note(
            "this address works only on the server's machine; for other machines, set TERRACREW_SERVER_PUBLIC_URL on the server"
        )
    for key, value in made["environment"].items():
        click.echo(f"export {key}={_quoted(value)}")
    return click.echo(made["command"])


@runner.command("create")
@click.argument("name")
@click.option(
    "--service-account", required=True, metavar="ID", help="The account with which its processes authenticate."
)
@click.option(
    "--group",
    default="",
    metavar="PATH",
    shell_complete=name_completion.groups,
    help="The group that it belongs to; by default the organization.",
)
@click.option("--max-jobs", type=click.IntRange(min=1), help="How many jobs each instance may run at once.")
@click.option("--tag", "tags", multiple=True, help="A tag. Can be repeated.")
@click.option("--multiple", "allow_multiple_instances", is_flag=True, help="Allow several instances.")
@output.json_option
@pass_target
def create(target: Target, name: str, as_json: bool, **given: Any) -> None:
    """Create a runner called NAME that authenticates with a service account and has no token."""
    made = target.api().post("/runners", {"name": name} | {key: value for key, value in given.items() if value})
    return output.as_json(made) if as_json else click.echo(f"created runner {made['path']}")


@runner.command("update")
@click.argument("path", shell_complete=name_completion.runners)
@click.option("--description", help="A description.")
@click.option("--max-jobs", type=click.IntRange(min=1), help="How many jobs each instance may run at once.")
@click.option("--tag", "tags", multiple=True, help="A tag. Can be repeated; replaces all tags. '' removes all.")
@click.option(
    "--multiple/--single", "allow_multiple_instances", default=None, help="Whether several instances are allowed."
)
@click.option("--disable/--enable", "is_disabled", default=None, help="A disabled runner gets no new jobs.")
@output.json_option
@pass_target
def update(target: Target, path: str, tags: tuple[str, ...], as_json: bool, **given: Any) -> None:
    """Change the runner PATH. Options that are not given change nothing."""
    changes = {name: value for name, value in given.items() if value is not None}
    if tags:
        changes["tags"] = [each for each in tags if each]
    if not changes:
        raise Invalid("no option was given that changes the runner: see `terracrew runner update --help`")
    made = target.api().patch(_place(path), changes)
    return output.as_json(made) if as_json else click.echo(f"updated runner {made['path']}: {', '.join(changes)}")


@runner.command("drain")
@click.argument("path", shell_complete=name_completion.runners)
@output.json_option
@pass_target
def drain(target: Target, path: str, as_json: bool) -> None:
    """Drain the runner PATH: it finishes its jobs and gets no new ones."""
    _drain(target, path, True, as_json)


@runner.command("undrain")
@click.argument("path", shell_complete=name_completion.runners)
@output.json_option
@pass_target
def undrain(target: Target, path: str, as_json: bool) -> None:
    """End the drain of the runner PATH: it gets jobs again."""
    _drain(target, path, False, as_json)


@runner.command("configure")
@click.argument("path", shell_complete=name_completion.runners)
@click.option(
    "--heartbeat-seconds", type=click.FloatRange(1, 30), help="The time between two heartbeats of an instance [10]."
)
@click.option(
    "--log-level",
    "levels",
    multiple=True,
    metavar="CATEGORY=LEVEL",
    help="Trace, Debug, Information, Warning, Error, Critical or None; an empty level removes the category. Can be repeated.",
)
@click.option(
    "--log-batch-size",
    "batch_size_limit",
    type=click.IntRange(1, 10_000),
    help="How many log events are sent in one batch.",
)
@click.option(
    "--log-period",
    "period_seconds",
    type=click.FloatRange(0, 3600, min_open=True),
    help="How many seconds a log event waits for its batch to fill.",
)
@click.option("--reset", is_flag=True, help="Remove the whole configuration, so that the runner's own settings apply.")
@output.json_option
@pass_target
def configure(target: Target, path: str, levels: tuple[str, ...], reset: bool, as_json: bool, **given: Any) -> None:
    """Change settings of all instances of the runner PATH without a restart. Options that are not given change nothing.

    The batch size and the period apply while nobody watches a log; a watched log is sent line by line.
    """
    change = {name: value for name, value in given.items() if value is not None} | (
        {"log_level": dict(_level(each) for each in levels)} if levels else {}
    )
    if reset == bool(change):
        raise Invalid("give the settings to change, or --reset alone")
    found: Any = target.api().patch(_place(path), {"configuration": None if reset else change})
    if as_json:
        return output.as_json(found)
    configured = {name: value for name, value in found["configuration"].items() if value}
    return output.facts(
        [("path", found["path"]), *configured.items()]
        if configured
        else [("path", found["path"]), ("configuration", "its own settings")]
    )


@runner.command("remove")
@click.argument("path", shell_complete=name_completion.runners)
@click.option("--force", is_flag=True, help="Remove it even if it is not drained. Its running jobs then count as lost.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@output.json_option
@pass_target
def remove(target: Target, path: str, force: bool, yes: bool, as_json: bool) -> None:
    """Remove the runner PATH, which should be drained first. Its processes exit and log the reason."""
    if not yes:
        output.ask(f"Remove the runner {path}?", "Not removed.")
    target.api().delete(_place(path) + ("?force=true" if force else ""))
    return output.as_json({"removed": path}) if as_json else click.echo(f"removed {path}")


@runner.command("assign")
@click.argument("path", shell_complete=name_completion.runners)
@click.option(
    "--group",
    metavar="PATH",
    shell_complete=name_completion.groups,
    help="Assign it to everything below this group; '' is the whole organization.",
)
@click.option("--module", metavar="PATH", shell_complete=name_completion.modules, help="Assign it to this module.")
@click.option("--remove", "removing", is_flag=True, help="Remove the assignment instead.")
@output.json_option
@pass_target
def assign(target: Target, path: str, group: str | None, module: str | None, removing: bool, as_json: bool) -> None:
    """Let a group or a module use the runner PATH."""
    if (group is None) == (module is None):
        raise Invalid("give either --group or --module")
    body = {"place": module, "kind": "module"} if module is not None else {"place": group, "kind": "group"}
    api = target.api()
    made = (
        api.delete(f"{_place(path)}/assignments", body) if removing else api.post(f"{_place(path)}/assignments", body)
    )
    if as_json:
        return output.as_json(made if made is not None else body)
    place = f"{body['kind']} {body['place'] or '(everything)'}"
    return click.echo(f"{path} no longer serves {place}" if removing else f"{path} serves {place}")


@runner.command("schema")
def schema() -> None:
    """Print the JSON Schema of the settings file, for editors (`"$schema"`) and programs."""
    from terracrew.settings import runner as settings

    output.as_json(settings.schema())


def _level(text: str) -> tuple[str, str | None]:
    category, equals, level = text.partition("=")
    if not category or not equals:
        raise Invalid(f"--log-level {text!r} is not CATEGORY=LEVEL")
    return category, level.capitalize() or None


def _drain(target: Target, path: str, on: bool, as_json: bool) -> None:
    found: Any = target.api().post(f"{_place(path)}/drain", {"on": on})
    if as_json:
        return output.as_json(found)
    return click.echo(
        f"Draining {path}: it finishes its jobs and takes no new ones" if on else f"{path} takes jobs again"
    )


def _place(path: str) -> str:
    from terracrew.client.http import segment

    return f"/runners/{segment(path)}"


def _jobs(runner: dict[str, Any]) -> str:
    """Return the number of its jobs and, while instances are connected, its capacity."""
    return f"{runner['jobs']}/{runner['capacity']}" if runner.get("capacity") else str(runner["jobs"])


def _quoted(value: str) -> str:
    from shlex import quote

    return quote(value)


def _instance_status(instance: dict[str, Any]) -> str:
    """Return the status with notes on what an operator should look at."""
    is_full = instance.get("is_disk_full") and instance.get("status") == "DRAINING"
    notes = ["disk full"] if is_full else []
    if instance.get("is_connected") and instance.get("isolation") in ("none", "unavailable"):
        notes.append("modules not isolated")
    return f"{instance.get('status')} ({', '.join(notes)})" if notes else str(instance.get("status"))


def _status(runner: dict[str, Any]) -> str:
    here = [each for each in runner.get("instances", []) if each.get("is_connected")]
    is_full = bool(here) and not runner.get("is_draining") and all(each.get("is_disk_full") for each in here)
    return f"{runner['status']} (disk full)" if is_full else str(runner["status"])
