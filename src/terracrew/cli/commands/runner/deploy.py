"""`terracrew runner deploy`, `redeploy`, `wake`, `destroy` and `deployment`: runners in clouds."""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import click

from terracrew.cli.arguments import name_completion, values
from terracrew.cli.arguments.references import api_path
from terracrew.cli.arguments.values import Duration
from terracrew.cli.commands import fleet_job
from terracrew.cli.connection.target import Target, pass_target
from terracrew.cli.printing import output
from terracrew.wording.durations import duration

VCPU_UNIT_COUNT = 1024
_MEMORY = re.compile(r"(\d+)\s*(MB|GB|M|G)", re.IGNORECASE)
_SETTINGS = (
    "image",
    "cpu_units",
    "memory_mb",
    "architecture",
    "is_spot",
    "subnets",
    "security_groups",
    "has_public_address",
    "cluster",
    "job_role",
    "credential",
    "min_instances",
    "max_instances",
    "capacity",
    "idle_seconds",
    "max_lifetime_seconds",
    "wakes_ahead",
    "log_days",
)

_wait_option = click.option("--wait/--no-wait", default=True, help="Whether to follow the job to its end [--wait].")


class Memory(click.ParamType):  # pyright: ignore[reportMissingTypeArgument] - generic to the checker alone
    """Converts `2GB` or `512MB` to megabytes."""

    name = "memory"

    def convert(self, value: str | int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        found = _MEMORY.fullmatch(value.strip())
        if found is None:
            self.fail(f"{value!r} is not an amount of memory: write 2GB or 512MB", param, ctx)
        return int(found[1]) * (1024 if found[2].upper().startswith("G") else 1)


def _cpu(_ctx: click.Context, _param: click.Parameter, value: float | None) -> int | None:
    return None if value is None else round(value * VCPU_UNIT_COUNT)


def _settings_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that a deployment can have at first and later."""
    for add in (
        click.option("--log-days", type=values.WholeNumber(min=1), help="For how many days the log is kept [30]."),
        click.option(
            "--wake-ahead/--no-wake-ahead",
            "wakes_ahead",
            default=None,
            help="Whether to start an instance when somebody opens a plan that waits for approval [no].",
        ),
        click.option(
            "--max-lifetime",
            "max_lifetime_seconds",
            type=Duration(),
            metavar="TIME",
            help="An instance of this age takes no further jobs [24h].",
        ),
        click.option(
            "--idle", "idle_seconds", type=Duration(), metavar="TIME", help="Sleep after this long without a job [5m]."
        ),
        click.option("--capacity", type=values.WholeNumber(min=1), help="How many jobs an instance runs at once [1]."),
        click.option("--max-instances", type=values.WholeNumber(min=1), help="How many instances at most [4]."),
        click.option("--min-instances", type=values.WholeNumber(min=0), help="How many instances never sleep [0]."),
        click.option("--job-role", metavar="ROLE", help="The role (ARN), or service account of a cluster, of jobs."),
        click.option(
            "--public-address/--no-public-address",
            "has_public_address",
            default=None,
            help="Whether instances get a public address [yes].",
        ),
        click.option("--security-group", "security_groups", multiple=True, help="A further one. Can be repeated."),
        click.option("--subnet", "subnets", multiple=True, help="A subnet. Can be repeated [the default network]."),
        click.option("--spot/--no-spot", "is_spot", default=None, help="Cheaper, but the cloud may take it back [no]."),
        click.option("--architecture", type=click.Choice(["x86_64", "arm64"]), help="The processor [x86_64]."),
        click.option("--memory", "memory_mb", type=Memory(), metavar="SIZE", help="Of an instance: 512MB, 2GB [2GB]."),
        click.option("--cpu", "cpu_units", type=float, callback=_cpu, metavar="VCPU", help="Of an instance [1]."),
        click.option("--image", metavar="NAME", help="The image of the runner [as the server's settings say]."),
    ):
        command = add(command)
    return command


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
@click.option(
    "--group",
    default="",
    metavar="PATH",
    shell_complete=name_completion.groups,
    help="The group that it belongs to; by default the organization.",
)
@click.option("--description", help="A description.")
@click.option("--tag", "tags", multiple=True, help="A tag. Can be repeated.")
@click.option("--no-assign", is_flag=True, help="Assign it to nothing yet, instead of to its whole group.")
@click.option("--service-account", metavar="ACCOUNT", help="The account of its instances, with --credential federated.")
@click.option("--cluster", metavar="NAME", help="An existing cluster [the deployment makes one].")
@click.option(
    "--credential",
    type=click.Choice(["secret", "federated"]),
    help="How instances prove who they are: a token in the cloud's secret store, or the role that they have [secret].",
)
@_settings_options
@_wait_option
@output.json_option
@pass_target
def deploy(target: Target, name: str, no_assign: bool, wait: bool, **given: Any) -> output.CommandResult:
    """Deploy a runner called NAME in the account of a cloud identity. It sleeps while there are no jobs."""
    kept = ("identity", "group", "description", "tags", "service_account")
    body = {"name": name} | {field: given[field] for field in kept if given[field]}
    body |= {"settings": _chosen(given)} | ({"assign": False} if no_assign else {})
    made = target.api().post("/runners/deploy", body)
    return _follow(target, made, "deploying {path}", wait=wait)


@click.command(
    "redeploy", epilog=output.examples("terracrew runner redeploy payments/burst --max-instances 8 --idle 10m")
)
@click.argument("path", shell_complete=name_completion.runners)
@_settings_options
@click.option("--new-token", is_flag=True, help="Replace the token of its instances; those that run lose contact.")
@_wait_option
@output.json_option
@pass_target
def redeploy(target: Target, path: str, new_token: bool, wait: bool, **given: Any) -> output.CommandResult:
    """Deploy the cloud-hosted runner PATH again, with other settings if there are any. Jobs that run finish where they are."""
    made = target.api().post(f"{api_path(path)}/deploy", _chosen(given) | ({"new_token": True} if new_token else {}))
    return _follow(target, made, "deploying {path} again", wait=wait)


@click.command("destroy")
@click.argument("path", shell_complete=name_completion.runners)
@click.option("--force", is_flag=True, help="Do not wait for its jobs: they count as lost.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@_wait_option
@output.json_option
@pass_target
def destroy(target: Target, path: str, force: bool, yes: bool, wait: bool) -> output.CommandResult:
    """Remove the cloud-hosted runner PATH with everything that was made for it in the cloud. It drains first."""
    api = target.api()
    if not yes:
        found = api.get(f"{api_path(path)}/deployment")
        output.ask(
            f"{path} is removed, and with it everything that was made for it with {found['identity']}. "
            + ("Its jobs count as lost." if force else "Its jobs end first."),
            "Not removed.",
        )
    made = api.post(f"{api_path(path)}/destroy", {"force": force})
    return _follow(target, made, "removing {path}", wait=wait)


def _left(at: str) -> str:
    """Return how long it is until a time, as the API tells it."""
    return duration(max(0.0, (datetime.fromisoformat(at) - datetime.now(UTC)).total_seconds()))


@click.command("deployment")
@click.argument("path", shell_complete=name_completion.runners)
@output.json_option
@pass_target
def deployment(target: Target, path: str) -> output.CommandResult:
    """Show what is deployed for the cloud-hosted runner PATH, what runs of it, and what its cloud last refused."""
    found: dict[str, Any] = target.api().get(f"{api_path(path)}/deployment")

    def show() -> None:
        chosen = found["settings"]
        output.facts(
            [
                ("runner", found["path"]),
                ("identity", found["identity"]),
                ("region", found["region"]),
                ("status", found["status"]),
                ("version", found["version"]),
                ("image", found["image"]),
                ("size", f"{chosen['cpu_units'] / VCPU_UNIT_COUNT:g} vCPU, {chosen['memory_mb'] / 1024:g} GB"),
                ("instances", f"{chosen['min_instances']} to {chosen['max_instances']}"),
                ("jobs of each", chosen["capacity"]),
                ("sleeps after", f"{chosen['idle_seconds']} s without a job"),
                ("sleeps", found["sleeps_at"] and f"in {_left(found['sleeps_at'])} unless a job comes"),
                ("wakes in", f"about {found['typical_start_seconds']:.0f} s"),
                ("refused", found["refusal"]),
                (
                    "last job",
                    found["job"] and f"{found['job']['type']} #{found['job']['number']} {found['job']['status']}",
                ),
            ]
        )
        for step, reference in sorted(found["facts"].items()):
            click.echo(f"  {step}: {reference}")
        live = [each for each in found["instances"] if each["status"] != "ended"]
        output.table(
            ("INSTANCE", "STATUS", "SINCE", "WORDS"),
            [(each["name"], each["status"], output.age(each["wanted_at"]), each["words"]) for each in live],
            empty="no instance: it is asleep",
        )

    return output.CommandResult(found, show)


@click.command("wake")
@click.argument("path", shell_complete=name_completion.runners)
@output.json_option
@pass_target
def wake(target: Target, path: str) -> output.CommandResult:
    """Start an instance of the cloud-hosted runner PATH before a job needs it. It sleeps again if no job comes."""
    found = target.api().post(f"{api_path(path)}/wake", {})
    return output.message(
        found, f"{found['path']}: awake in about {found['typical_start_seconds']:.0f} s, if it was asleep"
    )


def _chosen(given: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a deployment that were given as options."""
    found = {field: given.get(field) for field in _SETTINGS}
    return {
        field: list(value) if isinstance(value, tuple) else value  # pyright: ignore[reportUnknownArgumentType]
        for field, value in found.items()
        if value is not None and value != ()
    }


def _follow(target: Target, made: dict[str, Any], words: str, *, wait: bool) -> output.CommandResult:
    """Follow the job of the fleet to its end, or say which one it is. A job that fails ends the command with exit code 1."""
    job = made["job"]
    output.note(f"{words.format(path=made['runner']['path'])}: {job['type']} #{job['number']}")
    if not wait:
        return output.message(made, f"`terracrew fleet-job logs {job['number']} --follow` shows how far it is")
    ended = fleet_job.follow_steps(target.api(), job["id"])
    return output.CommandResult(made | {"job": ended.value}, ended.show, ended.exit_code)
