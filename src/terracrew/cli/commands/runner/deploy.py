"""`terracrew runner deploy`, `redeploy`, `wake`, `destroy` and `deployment`: runners in clouds."""

from datetime import UTC, datetime

import click
import msgspec

from terracrew.api.deployments import (
    DeployAgain,
    DeployedRunner,
    DeploymentSettings,
    DeploymentView,
    DestroyRequest,
    NewCloudRunner,
)
from terracrew.cli.arguments import name_completion, settings
from terracrew.cli.arguments.references import api_path
from terracrew.cli.commands import fleet_job
from terracrew.cli.commands.runner.register import place_options
from terracrew.cli.connection.target import Target
from terracrew.cli.printing import details, output
from terracrew.protocol.field import VCPU_UNIT_COUNT
from terracrew.wording.durations import duration

_COMPOSED = {"image", "cpu_units", "memory_mb", "min_instances", "max_instances", "capacity", "idle_seconds"}
"""The settings that rows with other labels show."""
_wait_option = click.option("--wait/--no-wait", default=True, help="Whether to follow the job to its end [--wait].")


@click.command(
    "deploy",
    epilog=output.examples(
        "terracrew runner deploy burst --group payments --identity aws-prod",
        "terracrew runner deploy pool --identity aws-prod --cpu 2 --memory 4GB --spot",
    ),
)
@click.argument("name")
@click.option(
    "--identity",
    required=True,
    metavar="PATH",
    shell_complete=name_completion.cloud_identities,
    help="The cloud identity with which it is deployed.",
)
@settings.request_options(NewCloudRunner, "new", own=("name", "identity", "group", "assign"), defaults=NewCloudRunner)
@place_options
@_wait_option
@output.with_target
def deploy(target: Target, new: NewCloudRunner, wait: bool) -> output.CommandResult:
    """Deploy a runner called NAME in the account of a cloud identity. It sleeps while there are no jobs."""
    made = target.api().post("/runners/deploy", new, DeployedRunner)
    return _follow(target, made, "deploying {path}", wait=wait)


@click.command(
    "redeploy", epilog=output.examples("terracrew runner redeploy payments/burst --max-instances 8 --idle 10m")
)
@click.argument("path", shell_complete=name_completion.runners)
@settings.request_options(DeployAgain, own=("new_token",))
@click.option("--new-token", is_flag=True, help="Replace the token of its instances; those that run lose contact.")
@_wait_option
@output.with_target
def redeploy(target: Target, path: str, change: DeployAgain, wait: bool) -> output.CommandResult:
    """Deploy the cloud-hosted runner PATH again, with other settings if there are any. Jobs that run finish where they are."""
    made = target.api().post(f"{api_path(path)}/deploy", change, DeployedRunner)
    return _follow(target, made, "deploying {path} again", wait=wait)


@click.command("destroy")
@click.argument("path", shell_complete=name_completion.runners)
@click.option("--force", is_flag=True, help="Do not wait for its jobs: they count as lost.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@_wait_option
@output.with_target
def destroy(target: Target, path: str, force: bool, yes: bool, wait: bool) -> output.CommandResult:
    """Remove the cloud-hosted runner PATH with everything that was made for it in the cloud. It drains first."""
    api = target.api()
    if not yes:
        found = api.get(f"{api_path(path)}/deployment", DeploymentView)
        output.ask(
            f"{path} is removed, and with it everything that was made for it with {found.identity}. "
            + ("Its jobs count as lost." if force else "Its jobs end first."),
            "Not removed.",
        )
    made = api.post(f"{api_path(path)}/destroy", DestroyRequest(force), DeployedRunner)
    return _follow(target, made, "removing {path}", wait=wait)


@click.command("deployment")
@click.argument("path", shell_complete=name_completion.runners)
@output.with_target
def deployment(target: Target, path: str) -> output.CommandResult:
    """Show what is deployed for the cloud-hosted runner PATH, what runs of it, and what its cloud last refused."""
    found = target.api().get(f"{api_path(path)}/deployment", DeploymentView)

    def show() -> None:
        chosen = found.settings
        output.facts(
            [
                ("runner", found.path),
                ("identity", found.identity),
                ("region", found.region),
                ("status", found.status),
                ("version", found.version),
                ("image", found.image),
                ("size", f"{chosen.cpu_units / VCPU_UNIT_COUNT:g} vCPU, {chosen.memory_mb / 1024:g} GB"),
                ("instances", f"{chosen.min_instances} to {chosen.max_instances}"),
                ("jobs of each", chosen.capacity),
                *details.rows(chosen, DeploymentSettings, without=_COMPOSED),
                ("sleeps after", f"{chosen.idle_seconds} s without a job"),
                (
                    "sleeps",
                    found.sleeps_at
                    and f"in {duration((found.sleeps_at - datetime.now(UTC)).total_seconds())} unless a job comes",
                ),
                ("wakes in", f"about {found.typical_start_seconds:.0f} s"),
                ("refused", found.refusal),
                (
                    "last job",
                    found.job and f"{found.job.type} #{found.job.number} {found.job.status}",
                ),
            ]
        )
        for step, reference in sorted(found.facts.items()):
            click.echo(f"  {step}: {reference}")
        live = [each for each in found.instances if each.status != "ended"]
        output.table(
            ("INSTANCE", "STATUS", "SINCE", "WORDS"),
            [(each.name, each.status, output.age(each.wanted_at), each.words) for each in live],
            empty="no instance: it is asleep",
        )

    return output.CommandResult(found, show)


@click.command("wake")
@click.argument("path", shell_complete=name_completion.runners)
@output.with_target
def wake(target: Target, path: str) -> output.CommandResult:
    """Start an instance of the cloud-hosted runner PATH before a job needs it. It sleeps again if no job comes."""
    found = target.api().post(f"{api_path(path)}/wake", {}, DeploymentView)
    return output.message(found, f"{found.path}: awake in about {found.typical_start_seconds:.0f} s, if it was asleep")


def _follow(target: Target, made: DeployedRunner, words: str, *, wait: bool) -> output.CommandResult:
    """Follow the job of the fleet to its end, or say which one it is. A job that fails ends the command with exit code 1."""
    job = made.job
    output.note(f"{words.format(path=made.runner.path)}: {job.type} #{job.number}")
    if not wait:
        return output.message(made, f"`terracrew fleet-job logs {job.number} --follow` shows how far it is")
    ended = fleet_job.follow_steps(target.api(), job.id)
    return output.CommandResult(msgspec.structs.replace(made, job=ended.value), ended.show, ended.exit_code)
