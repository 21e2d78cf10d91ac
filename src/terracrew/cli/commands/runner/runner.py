"""`terracrew runner`: lists and shows runners with their instances, assignments and alerts; the other files have its other commands."""

from datetime import UTC, datetime
from typing import Any

import click

from terracrew.cli.arguments import name_completion, references
from terracrew.cli.arguments.references import api_path
from terracrew.cli.commands.runner import assign, deploy, drain, once_token, register, update
from terracrew.cli.connection.target import Target, pass_target
from terracrew.cli.lazy import LazyGroup
from terracrew.cli.printing import output
from terracrew.wording import alert_words

TOKEN_WARNING_SECONDS = 5 * 24 * 3600.0
"""How long before the end of a worker token the command warns; the page of a runner does so as early."""


@click.command("list")
@click.option(
    "--status",
    type=click.Choice(["ONLINE", "OFFLINE", "DRAINING", "ASLEEP", "WAKING"], case_sensitive=False),
    help="Only runners with this status.",
)
@click.option("--group", metavar="PATH", shell_complete=name_completion.groups, help="Only runners of this group.")
@output.json_option
@pass_target
def list_runners(target: Target, status: str | None, group: str | None) -> output.CommandResult:
    """List the runners. JOBS is how many jobs each has, and how many its connected instances can run at once."""
    items = list(target.api().list("/runners", status=status, group=group))
    rows = [(i["path"], _type(i), _status(i), _version(i), _jobs(i), output.age(i["created_at"])) for i in items]
    declared = sorted({each["declared_in"] for each in items if each.get("declared_in")})
    notes = [f"The server's settings file {file} declares shared runners." for file in declared]
    if outdated := [each for each in items if each.get("is_outdated")]:
        count = "1 runner is" if len(outdated) == 1 else f"{len(outdated)} runners are"
        rest = "`terracrew runner update --all` updates those that you may change"
        if all(_type(each) == "shared" for each in outdated):
            rest = "`terracrew runner update --all --dry-run` says how it is updated by hand"
        notes.append(f"{count} older than {outdated[0]['latest_version']}: {rest}")
    columns = ("PATH", "TYPE", "STATUS", "VERSION", "JOBS", "CREATED")
    return output.listing(items, columns, rows, empty="no runners: `terracrew runner register NAME`", notes=notes)


@click.command("show")
@click.argument("path", shell_complete=name_completion.runners)
@output.json_option
@pass_target
def show_runner(target: Target, path: str) -> output.CommandResult:
    """Show the runner PATH, its instances and its assignments."""
    api = target.api()
    found = api.get(api_path(path))
    assignments = api.get(f"{api_path(path)}/assignments")["items"]

    def show() -> None:
        output.facts(
            [
                ("path", found["path"]),
                ("id", found["id"]),
                ("type", _type(found)),
                ("declared in", _declaration(found)),
                ("status", _status(found)),
                ("removing", output.lasting(found["removing_since"]) if found.get("removing_since") else None),
                ("version", _version(found)),
                ("update", _update(found)),
                ("jobs", _jobs(found).replace("/", " of ")),
                ("limit", _limit(found)),
                ("instances", "several" if found.get("allow_multiple_instances") else "one"),
                ("tags", found["tags"]),
                ("token", _token(found)),
                ("service account", references.account_name(api, found.get("service_account_id"))),
                ("configured", {name: value for name, value in found.get("configuration", {}).items() if value}),
                ("assigned to", [each["path"] or "(everything)" for each in assignments]),
                ("created", output.age(found["created_at"])),
            ]
        )
        if instances := found.get("instances"):
            click.echo()
            rows = [
                (i["name"], _instance_status(i), i.get("version"), _slots(i, found), output.age(i.get("heard_at")))
                for i in instances
            ]
            output.table(("INSTANCE", "STATUS", "VERSION", "JOBS", "LAST CONTACT"), rows, empty="")
            if engines := _engines(instances):
                click.echo()
                output.table(("INSTANCE", "ENGINE", "VERSIONS"), engines, empty="")
        if found.get("alerts"):
            output.note(f"Somebody else may use its credentials: `terracrew runner alerts {found['path']}`")

    return output.CommandResult({**found, "assignments": assignments}, show)


def _engines(instances: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    """Return the engines that each connected instance has announced; of the versions, the one that a job uses by default is first."""
    return [
        (each["name"], name, ", ".join(versions))
        for each in instances
        if each.get("is_connected")
        for name, versions in each.get("engine_versions", {}).items()
    ]


def _type(runner: dict[str, Any]) -> str:
    """Return `shared` for a runner that belongs to no group, otherwise where its processes come from."""
    return "shared" if runner.get("group", "") is None else runner["type"]


def _version(runner: dict[str, Any]) -> str | None:
    """Return the version with the note that a newer one was released."""
    return f"{runner['version']} (outdated)" if runner.get("is_outdated") else runner.get("version")


def _update(runner: dict[str, Any]) -> str | None:
    """Say how an outdated runner is updated."""
    if not runner.get("is_outdated"):
        return None
    return f"{runner['latest_version']} is the latest release: `terracrew runner update {runner['path']}`"


def _token(runner: dict[str, Any]) -> str | None:
    """Say when the worker token ends."""
    if not (ends_at := runner.get("worker_token_expires_at")):
        return "none" if not runner.get("has_worker_token") else None
    seconds = (datetime.fromisoformat(ends_at) - datetime.now(UTC)).total_seconds()
    if seconds <= 0:
        return f"expired {output.age(ends_at)}: `terracrew runner reregister {runner['path']}` makes a new one"
    text = f"expires {output.age(ends_at)} unless the runner uses it"
    return f"{text}; start the runner before that" if seconds < TOKEN_WARNING_SECONDS else text


def _limit(runner: dict[str, Any]) -> str:
    """Say how many jobs each instance may run. What its own settings allow is known only while an instance is connected."""
    text = f"each instance runs at most {runner['max_jobs']} job{'' if runner['max_jobs'] == 1 else 's'}"
    instances: list[dict[str, Any]] = runner.get("instances") or []
    is_known = any(each.get("capacity") for each in instances)
    return text if is_known else f"{text}, or fewer by its own settings"


def _jobs(runner: dict[str, Any]) -> str:
    """Return the number of its jobs and, while instances are connected, its capacity."""
    return f"{runner['jobs']}/{runner['capacity']}" if runner.get("capacity") else str(runner["jobs"])


def _instance_status(instance: dict[str, Any]) -> str:
    """Return the status with notes on what an operator should look at."""
    is_full = instance.get("is_disk_full") and instance.get("status") == "DRAINING"
    notes = ["disk full"] if is_full else []
    if instance.get("is_connected") and instance.get("drain_reason"):
        ends_at = instance.get("ends_at")
        notes.append(f"{instance['drain_reason']}{f', ends {output.age(ends_at)}' if ends_at else ''}")
    if instance.get("is_connected") and instance.get("isolation") in ("none", "unavailable"):
        notes.append("modules not isolated")
    return f"{instance.get('status')} ({', '.join(notes)})" if notes else str(instance.get("status"))


def _slots(instance: dict[str, Any], runner: dict[str, Any]) -> str:
    """Return how many jobs an instance has and, while it is connected, how many it can run at once."""
    jobs = instance.get("jobs", 0)
    return f"{jobs}/{min(instance['capacity'], runner['max_jobs'])}" if instance.get("is_connected") else str(jobs)


def _declaration(runner: dict[str, Any]) -> str | None:
    """Return where a shared runner is declared."""
    if runner.get("organization_id") is not None:
        return None
    if not runner.get("is_declared"):
        return "nothing any more: it is retired" if runner.get("removing_since") else None
    return runner.get("declared_in") or "the server's defaults"


def _status(runner: dict[str, Any]) -> str:
    """Return the status with what an operator has decided about the runner."""
    here = [each for each in runner.get("instances", []) if each.get("is_connected")]
    is_full = bool(here) and not runner.get("is_draining") and all(each.get("is_disk_full") for each in here)
    notes = ["removing"] if runner.get("removing_since") else []
    notes += ["disabled"] if runner.get("is_disabled") else []
    is_hidden = runner.get("is_draining") and runner["status"] == "OFFLINE" and not runner.get("removing_since")
    notes += ["draining"] if is_hidden else []
    notes += ["disk full"] if is_full else []
    notes += [f"{count} alert{'' if count == 1 else 's'}"] if (count := runner.get("alerts", 0)) else []
    return f"{runner['status']} ({', '.join(notes)})" if notes else str(runner["status"])


@click.command("alerts")
@click.argument("path", shell_complete=name_completion.runners)
@click.option("--acknowledge", is_flag=True, help="Acknowledge the alerts that this command shows.")
@output.json_option
@pass_target
def alerts(target: Target, path: str, acknowledge: bool) -> output.CommandResult:
    """Show the alerts about the runner PATH that nobody has acknowledged: takeovers, moves, and uses of earlier tokens."""
    api = target.api()
    found: list[dict[str, Any]] = api.get(f"{api_path(path)}/alerts")["items"]
    if acknowledge and found:
        # What happened after this list was read was not shown, so it is not acknowledged.
        api.post(f"{api_path(path)}/alerts/acknowledge", {"until": found[0]["last_at"]})

    def show() -> None:
        if not found:
            click.echo(f"There are no alerts about {path}.")
        for each in found:
            click.echo(
                f"{sentence(each)}, {output.age(each['last_at'])}. {alert_words.WHAT_TO_DO.get(each['kind'], '')}".strip()
            )
        if acknowledge and found:
            output.note("Acknowledged.")

    return output.CommandResult(found, show)


def sentence(alert: dict[str, Any]) -> str:
    return alert_words.sentence(
        alert["kind"],
        alert["instance"],
        alert["address"],
        alert["former_address"],
        alert["count"],
        is_other_machine=alert["is_other_machine"],
    )


@click.group(
    cls=LazyGroup,
    lazy={
        "start": ("terracrew.cli.commands.runner.start:start", "Start a runner on this machine."),
        "settings": ("terracrew.cli.commands.runner.start:settings", "Print the settings of a runner here."),
        "environment": (
            "terracrew.cli.commands.runner.start:environment",
            "Print which variables of this shell engines would get.",
        ),
        "schema": ("terracrew.cli.commands.runner.start:schema", "Print the JSON Schema of the settings file."),
    },
)
def runner() -> None:
    """Start, register and manage runners. PATH is a runner's path (`group/name`) or id."""


for _command in (
    list_runners,
    show_runner,
    alerts,
    register.register,
    register.reregister,
    register.create,
    deploy.deploy,
    deploy.redeploy,
    deploy.wake,
    deploy.deployment,
    deploy.destroy,
    update.update,
    update.disable,
    update.enable,
    drain.drain,
    drain.undrain,
    assign.assign,
    assign.unassign,
    drain.remove,
    once_token.once_token,
    update.configure,
):
    runner.add_command(_command)
