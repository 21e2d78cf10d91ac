"""`terracrew runner`: lists and shows runners with their instances, assignments and alerts; the other files have its other commands."""

from datetime import UTC, datetime

import click
import msgspec

from terracrew.api.pages import Page
from terracrew.api.runners import (
    Acknowledgement,
    Assignment,
    Configuration,
    Instance,
    RunnerAlert,
    RunnerOptions,
    RunnerStatus,
    RunnerView,
)
from terracrew.cli.arguments import name_completion, options, references
from terracrew.cli.arguments.references import api_path
from terracrew.cli.commands.runner import deploy, drain, register, update
from terracrew.cli.connection.target import Target
from terracrew.cli.lazy import LazyGroup
from terracrew.cli.printing import details, output
from terracrew.wording import alert_words


@click.command("list")
@click.option(
    "--status",
    type=click.Choice([each.value for each in RunnerStatus], case_sensitive=False),
    help="Only runners with this status.",
)
@options.group("Only runners of this group.")
@click.option("--search", metavar="WORDS", default="", help="Only runners with these words in path or description.")
@output.with_target
def list_runners(target: Target, status: str | None, group: str | None, search: str) -> output.CommandResult:
    """List the runners. JOBS is how many jobs each has, and how many its connected instances can run at once."""
    items = list(target.api().list("/runners", RunnerView, status=status, group=group, search=search or None))
    rows = [(i.path, _type(i), _status(i), _version(i), _jobs(i), output.age(i.created_at)) for i in items]
    declared = sorted({each.declared_in for each in items if each.declared_in})
    notes = [f"The server's settings file {file} declares shared runners." for file in declared]
    if outdated := [each for each in items if each.is_outdated]:
        count = "1 runner is" if len(outdated) == 1 else f"{len(outdated)} runners are"
        rest = "`terracrew runner update --all` updates those that you may change"
        if all(_type(each) == "shared" for each in outdated):
            rest = "`terracrew runner update --all --dry-run` says how it is updated by hand"
        notes.append(f"{count} older than {outdated[0].latest_version}: {rest}")
    columns = ("PATH", "TYPE", "STATUS", "VERSION", "JOBS", "CREATED")
    return output.listing(
        items,
        columns,
        rows,
        empty="no runner matches" if search else "no runners: `terracrew runner register NAME`",
        notes=notes,
    )


@click.command("show")
@click.argument("path", shell_complete=name_completion.runners)
@output.with_target
def show_runner(target: Target, path: str) -> output.CommandResult:
    """Show the runner PATH, its instances and its assignments."""
    api = target.api()
    found = api.get(api_path(path), RunnerView)
    assignments = api.get(f"{api_path(path)}/assignments", Page[Assignment]).items

    def show() -> None:
        output.facts(
            [
                ("path", found.path),
                ("id", found.id),
                ("type", _type(found)),
                ("declared in", _declaration(found)),
                ("status", _status(found)),
                ("removing", output.lasting(found.removing_since) if found.removing_since else None),
                ("version", _version(found)),
                ("update", _update(found)),
                ("jobs", _jobs(found).replace("/", " of ")),
                *details.rows(found, RunnerOptions, {"max_jobs": _limit(found)}),
                ("token", _token(found)),
                ("service account", references.account_name(api, found.service_account_id)),
                *details.rows(found.configuration, Configuration),
                ("assigned to", [each.path or "(everything)" for each in assignments]),
                ("created", output.age(found.created_at)),
            ]
        )
        if found.instances:
            click.echo()
            rows = [
                (i.name, _instance_status(i), i.version, _slots(i, found), output.age(i.heard_at))
                for i in found.instances
            ]
            output.table(("INSTANCE", "STATUS", "VERSION", "JOBS", "LAST CONTACT"), rows, empty="")
            if engines := _engines(found.instances):
                click.echo()
                output.table(("INSTANCE", "ENGINE", "VERSIONS"), engines, empty="")
        if found.alerts:
            output.note(f"Somebody else may use its credentials: `terracrew runner alerts {found.path}`")

    return output.CommandResult(msgspec.to_builtins(found) | {"assignments": assignments}, show)


def _engines(instances: list[Instance]) -> list[tuple[str, str, str]]:
    """Return the engines that each connected instance has announced; of the versions, the one that a job uses by default is first."""
    return [
        (each.name, name, ", ".join(versions))
        for each in instances
        if each.is_connected
        for name, versions in each.engine_versions.items()
    ]


def _type(runner: RunnerView) -> str:
    """Return `shared` for a runner that belongs to no group, otherwise where its processes come from."""
    return "shared" if runner.group is None else runner.type


def _version(runner: RunnerView) -> str | None:
    """Return the version with the note that a newer one was released."""
    return f"{runner.version} (outdated)" if runner.is_outdated else runner.version


def _update(runner: RunnerView) -> str | None:
    """Say how an outdated runner is updated."""
    if not runner.is_outdated:
        return None
    return f"{runner.latest_version} is the latest release: `terracrew runner update {runner.path}`"


def _token(runner: RunnerView) -> str | None:
    """Say when the worker token ends."""
    if not (ends_at := runner.worker_token_expires_at):
        return "none" if not runner.has_worker_token else None
    now = datetime.now(UTC)
    if ends_at <= now:
        return f"expired {output.age(ends_at)}: `terracrew runner reregister {runner.path}` makes a new one"
    text = f"expires {output.age(ends_at)} unless the runner uses it"
    return f"{text}; start the runner before that" if runner.is_token_ending(now) else text


def _limit(runner: RunnerView) -> str:
    """Say how many jobs each instance may run. What its own settings allow is known only while an instance is connected."""
    text = f"each instance runs at most {runner.max_jobs} job{'' if runner.max_jobs == 1 else 's'}"
    is_known = any(each.capacity for each in runner.instances)
    return text if is_known else f"{text}, or fewer by its own settings"


def _jobs(runner: RunnerView) -> str:
    """Return the number of its jobs and, while instances are connected, its capacity."""
    return f"{runner.jobs}/{runner.capacity}" if runner.capacity else str(runner.jobs)


def _instance_status(instance: Instance) -> str:
    """Return the status with notes on what an operator should look at."""
    notes = ["disk full"] if instance.is_disk_full and instance.status == RunnerStatus.DRAINING else []
    if instance.is_connected and instance.drain_reason:
        ends_at = instance.ends_at
        notes.append(f"{instance.drain_reason}{f', ends {output.age(ends_at)}' if ends_at else ''}")
    if instance.is_connected and instance.isolation in ("none", "unavailable"):
        notes.append("modules not isolated")
    return f"{instance.status} ({', '.join(notes)})" if notes else instance.status


def _slots(instance: Instance, runner: RunnerView) -> str:
    """Return how many jobs an instance has and, while it is connected, how many it can run at once."""
    capacity = f"/{min(instance.capacity, runner.max_jobs)}" if instance.is_connected else ""
    return f"{instance.jobs}{capacity}"


def _declaration(runner: RunnerView) -> str | None:
    """Return where a shared runner is declared."""
    if not runner.is_shared:
        return None
    if not runner.is_declared:
        return "nothing any more: it is retired" if runner.removing_since else None
    return runner.declared_in or "the server's defaults"


def _status(runner: RunnerView) -> str:
    """Return the status with what an operator has decided about the runner."""
    is_hidden = runner.is_draining and runner.status == RunnerStatus.OFFLINE and not runner.removing_since
    notes = [
        words
        for words, applies in (
            ("removing", runner.removing_since),
            ("disabled", runner.is_disabled),
            ("draining", is_hidden),
            ("disk full", runner.is_disk_full),
            (f"{runner.alerts} alert{'' if runner.alerts == 1 else 's'}", runner.alerts),
        )
        if applies
    ]
    return f"{runner.status} ({', '.join(notes)})" if notes else runner.status


@click.command("alerts")
@click.argument("path", shell_complete=name_completion.runners)
@click.option("--acknowledge", is_flag=True, help="Acknowledge the alerts that this command shows.")
@output.with_target
def alerts(target: Target, path: str, acknowledge: bool) -> output.CommandResult:
    """Show the alerts about the runner PATH that nobody has acknowledged: takeovers, moves, and uses of earlier tokens."""
    api = target.api()
    found = api.get(f"{api_path(path)}/alerts", Page[RunnerAlert]).items
    if acknowledge and found:
        # What happened after this list was read was not shown, so it is not acknowledged.
        api.post(f"{api_path(path)}/alerts/acknowledge", Acknowledgement(until=found[0].last_at), Page[RunnerAlert])

    def show() -> None:
        if not found:
            click.echo(f"There are no alerts about {path}.")
        for each in found:
            click.echo(f"{_sentence(each)}, {output.age(each.last_at)}. {alert_words.WHAT_TO_DO[each.kind]}")
        if acknowledge and found:
            output.note("Acknowledged.")

    return output.CommandResult(found, show)


def _sentence(alert: RunnerAlert) -> str:
    return alert_words.sentence(
        alert.kind,
        alert.instance,
        alert.address,
        alert.former_address,
        alert.count,
        is_other_machine=alert.is_other_machine,
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
    drain.disable,
    drain.enable,
    drain.drain,
    drain.undrain,
    update.assign,
    update.unassign,
    drain.remove,
    register.once_token,
    update.configure,
):
    runner.add_command(_command)
