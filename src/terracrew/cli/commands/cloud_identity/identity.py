"""`terracrew cloud-identity`: creates, shows, changes and deletes cloud identities."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from terracrew.cli.arguments import name_completion
from terracrew.cli.commands.cloud_identity.account import look, show_policies, test
from terracrew.cli.commands.cloud_identity.api_path import api_path
from terracrew.cli.connection.target import Target, pass_target
from terracrew.cli.lazy import LazyGroup
from terracrew.cli.printing import output
from terracrew.errors import Invalid

_FIELDS = ("description", "way", "role_arn", "region", "api_url", "namespace", "audience")


@click.group("cloud-identity", cls=LazyGroup)
def cloud_identity() -> None:
    """Manage the ways into cloud accounts in which runners are started. No key is stored.

    IDENTITY is the path of an identity (`group/name`) or its id.
    """


def _settings(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that a new identity and a change have in common."""
    for add in (
        click.option("--audience", metavar="TEXT", help="The `aud` of the tokens that the server signs."),
        click.option("--namespace", metavar="NAME", help="Kubernetes: where runners are started [terracrew]."),
        click.option(
            "--ca-certificate",
            "ca_file",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            metavar="FILE",
            help="Kubernetes: the certificates of the API, as PEM [those of the system].",
        ),
        click.option("--api-url", metavar="URL", help="Kubernetes: the https address of the cluster's API."),
        click.option("--region", metavar="NAME", help="AWS: where runners are started, such as eu-central-1."),
        click.option("--role-arn", metavar="ARN", help="AWS: the role that the server assumes."),
        click.option(
            "--way",
            type=click.Choice(["web_identity", "workload"]),
            help="How the server signs in: with a token that it signs, or as the machine or pod that it runs on.",
        ),
        click.option("--description", metavar="TEXT", help="What it is for."),
    ):
        command = add(command)
    return command


@cloud_identity.command("list")
@click.option(
    "--usable-in", metavar="GROUP", shell_complete=name_completion.groups, help="Those that its runners may use."
)
@output.json_option
@pass_target
def list_identities(target: Target, usable_in: str | None) -> output.Result:
    """List cloud identities, with the runners that are deployed with them and how their last test ended."""
    items = list(target.api().list("/cloud-identities", usable_in=usable_in))
    rows = [
        (each["path"], each["location"], each["way"], _last_test(each), [found["path"] for found in each["runners"]])
        for each in items
    ]
    empty = "no cloud identities: `terracrew cloud-identity create NAME --role-arn ARN --region REGION`"
    return output.listing(items, ("IDENTITY", "WHERE", "WAY", "LAST TEST", "RUNNERS"), rows, empty=empty)


@cloud_identity.command(
    "create",
    epilog=output.examples(
        "terracrew cloud-identity create aws-prod --region eu-central-1 \\",
        "    --role-arn arn:aws:iam::123456789012:role/terracrew",
        "terracrew cloud-identity policies aws-prod",
        "terracrew cloud-identity test aws-prod",
    ),
)
@click.argument("name")
@click.option(
    "--group",
    default="",
    metavar="PATH",
    shell_complete=name_completion.groups,
    help="The group whose runners may use it, and those below; by default the organization.",
)
@click.option("--kind", type=click.Choice(["aws", "kubernetes"]), help="The cloud [aws].")
@_settings
@output.json_option
@pass_target
def create(target: Target, name: str, group: str, kind: str | None, **given: Any) -> output.Result:
    """Create a cloud identity called NAME. `policies` then prints what the account needs, and `test` tries it."""
    body = {"name": name, "group": group} | ({"kind": kind} if kind else {}) | _chosen(given)
    made = target.api().post("/cloud-identities", body)
    return output.message(
        made,
        f"created the cloud identity {made['path']} for {made['location']}",
        f"Next: `terracrew cloud-identity policies {made['path']}` prints what to paste into the account, and\n"
        f"`terracrew cloud-identity test {made['path']}` tries it.",
    )


@cloud_identity.command("show", epilog=output.examples("terracrew cloud-identity show aws-prod"))
@click.argument("identity", shell_complete=name_completion.cloud_identities)
@output.json_option
@pass_target
def show(target: Target, identity: str) -> output.Result:
    """Show IDENTITY with the runners that are deployed with it."""
    found = target.api().get(api_path(identity))
    return output.details(
        found,
        [
            ("identity", found["path"]),
            ("id", found["id"]),
            ("description", found["description"]),
            ("where", found["location"]),
            ("way in", found["way"]),
            ("role", found["role_arn"]),
            ("issuer", found["issuer"] if found["way"] == "web_identity" else ""),
            ("subject", found["subject"] if found["way"] == "web_identity" else ""),
            ("audience", found["audience"] if found["way"] == "web_identity" else ""),
            ("external id", found["external_id"] if found["kind"] == "aws" and found["way"] == "workload" else ""),
            ("last test", _last_test(found)),
            ("runners", [each["path"] for each in found["runners"]] or "none"),
            ("created", output.age(found["created_at"])),
        ],
    )


@cloud_identity.command(
    "update", epilog=output.examples("terracrew cloud-identity update aws-prod --description 'acme production'")
)
@click.argument("identity", shell_complete=name_completion.cloud_identities)
@click.option("--name", "new_name", metavar="NAME", help="A new name. Subject and external id stay.")
@_settings
@output.json_option
@pass_target
def update(target: Target, identity: str, new_name: str | None, **given: Any) -> output.Result:
    """Change IDENTITY. While runners are deployed with it, its account and region stay."""
    changes = _chosen(given) | ({"name": new_name} if new_name else {})
    if not changes:
        raise Invalid("no option was given that changes it: see `terracrew cloud-identity update --help`")
    made = target.api().patch(api_path(identity), changes)
    return output.message(made, f"changed the cloud identity {made['path']} for {made['location']}")


@cloud_identity.command("delete")
@click.argument("identity", shell_complete=name_completion.cloud_identities)
@click.option("--yes", is_flag=True, help="Do not ask. Required without a terminal.")
@output.json_option
@pass_target
def delete(target: Target, identity: str, yes: bool) -> output.Result:
    """Delete IDENTITY, if no runner is deployed with it. One that is created again has another subject."""
    api = target.api()
    if not yes:
        found = api.get(api_path(identity))
        output.ask(f"{found['path']} is deleted. The policies of {found['location']} stay there.", "Not deleted.")
    api.delete(api_path(identity))
    return output.message({"deleted": identity}, f"deleted {identity}")


for _command in (test, show_policies, look):
    cloud_identity.add_command(_command)


def _chosen(given: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that were given as options."""
    chosen = {field: given[field] for field in _FIELDS if given[field] is not None}
    if given["ca_file"] is not None:
        chosen["ca_certificate"] = given["ca_file"].read_text()
    return chosen


def _last_test(found: dict[str, Any]) -> str:
    job = found.get("last_test")
    return f"{job['status']} #{job['number']}, {output.age(job['created_at'])}" if job else ""
