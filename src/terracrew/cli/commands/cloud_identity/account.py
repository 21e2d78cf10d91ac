"""`terracrew cloud-identity test`, `policies` and `report`: what an account needs, whether it has it, and what of ours is there."""

from typing import Any

import click

from terracrew.cli.arguments import name_completion, numbers
from terracrew.cli.commands.cloud_identity.api_path import api_path
from terracrew.cli.connection.target import Target, pass_target
from terracrew.cli.printing import fleet_progress, output

_identity = click.argument("identity", shell_complete=name_completion.cloud_identities)


@click.command(
    "test",
    epilog=output.examples(
        "terracrew cloud-identity test aws-prod",
        "terracrew cloud-identity test aws-prod --json",
    ),
)
@_identity
@click.option("--detach", is_flag=True, help="Do not wait for the end.")
@click.option(
    "--timeout", type=numbers.Number(min=0), metavar="SECONDS", help="Stop waiting after this time (exit code 13)."
)
@output.json_option
@pass_target
def test(target: Target, identity: str, detach: bool, timeout: float | None) -> output.Result:
    """Test IDENTITY: sign in, check each permission, quotas and networks. Nothing is changed in the account.

    The exit code is 1 if a check has failed. Each failed check says how to mend it.
    """
    api = target.api()
    job: dict[str, Any] = api.post(f"{api_path(identity)}/test", {})
    if detach:
        return output.message(job, f"{job['type']} #{job['number']} of {job['target_name']} is {job['status']}")
    return fleet_progress.follow(api, job["id"], timeout=timeout)


@click.command(
    "policies",
    epilog=output.examples(
        "terracrew cloud-identity policies aws-prod",
        "terracrew cloud-identity policies aws-prod --only opentofu > role.tf",
    ),
)
@_identity
@click.option("--only", metavar="NAME", help="Print this text alone: trust, permissions, opentofu; objects, flags.")
@output.json_option
@pass_target
def show_policies(target: Target, identity: str, only: str | None) -> output.Result:
    """Print what to paste into the account of IDENTITY: who may use its role, and the least that it must be allowed."""
    found = target.api().get(f"{api_path(identity)}/policies")
    documents: list[dict[str, Any]] = found["documents"]
    if only is not None:
        chosen = next((each for each in documents if each["name"] == only), None)
        if chosen is None:
            names = ", ".join(each["name"] for each in documents)
            raise click.UsageError(f"--only {only}: this identity has {names}")
        return output.message(found, chosen["text"].rstrip("\n"))

    def show() -> None:
        for each in documents:
            if each["name"] != "opentofu":
                output.note(f"{each['title']}: {each['about']}")
                click.echo(each["text"].rstrip("\n") + "\n")
        if any(each["name"] == "opentofu" for each in documents):
            output.note(f"For OpenTofu: `terracrew cloud-identity policies {identity} --only opentofu`")

    return output.Result(found, show)


@click.command("report", epilog=output.examples("terracrew cloud-identity report aws-prod"))
@_identity
@click.option("--last", "is_last", is_flag=True, help="Show what the last look found, without asking the cloud.")
@output.json_option
@pass_target
def look(target: Target, identity: str, is_last: bool) -> output.Result:
    """List what of ours is in the account of IDENTITY, why, who owns it, and what it costs a month."""
    api, path = target.api(), f"{api_path(identity)}/report"
    found = api.get(path) if is_last else api.post(path, {})
    if found["looked_at"] is None:
        note = f"nobody has looked yet: `terracrew cloud-identity report {identity}`"
        return output.Result(found, lambda: output.note(note))
    resources: list[dict[str, Any]] = found["resources"]
    rows = [
        (_owner(each), each["kind"], each["name"], _made_by(each), _dollars(each["dollars_a_month"]), each["why"])
        for each in resources
    ]
    notes = [f"{each['kind']} {each['name']}: {each['owner_words']}" for each in resources if each["owner"] != "runner"]
    unpriced = f", and {found['unpriced']} without a known price" if found["unpriced"] else ""
    notes.append(
        f"{_dollars(found['dollars_a_month'])} a month by list prices{unpriced}; looked {output.age(found['looked_at'])}"
    )
    columns = ("OWNER", "KIND", "NAME", "MADE BY", "A MONTH", "WHY")
    return output.listing(found, columns, rows, empty="nothing of ours is there", notes=notes)


def _owner(resource: dict[str, Any]) -> str:
    return resource["runner"] if resource["owner"] == "runner" else f"({resource['owner']})"


def _made_by(resource: dict[str, Any]) -> str:
    return f"#{resource['job_number']}" if resource["job_number"] else ""


def _dollars(amount: float | None) -> str:
    return "" if amount is None else f"${amount:,.2f}"
