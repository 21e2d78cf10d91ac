"""`terracrew cloud-identity`: manages the ways into cloud accounts in which runners are started, and tests them."""

import io

import click

from terracrew.api.cloud_identities import (
    IdentityChange,
    IdentityPolicies,
    IdentityReport,
    IdentityView,
    NewIdentity,
    ReportedResource,
)
from terracrew.api.fleet_jobs import FleetJob
from terracrew.cli.arguments import name_completion, options, settings
from terracrew.cli.commands import fleet_job
from terracrew.cli.connection.target import Target
from terracrew.cli.lazy import LazyGroup
from terracrew.cli.printing import output
from terracrew.client.address import segment

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
@options.timeout
@output.with_target
def test(target: Target, identity: str, detach: bool, timeout: float | None) -> output.CommandResult:
    """Test IDENTITY: sign in, check each permission, quotas and networks. Nothing is changed in the account.

    The exit code is 1 if a check has failed. Each failed check says how to mend it.
    """
    api = target.api()
    job = api.post(f"{_api_path(identity)}/test", {}, FleetJob)
    if detach:
        return output.message(job, f"{job.type} #{job.number} of {job.target_name} is {job.status}")
    return fleet_job.follow_steps(api, job.id, timeout=timeout)


@click.command(
    "policies",
    epilog=output.examples(
        "terracrew cloud-identity policies aws-prod",
        "terracrew cloud-identity policies aws-prod --only opentofu > role.tf",
    ),
)
@_identity
@click.option("--only", metavar="NAME", help="Print this text alone: trust, permissions, opentofu; objects, flags.")
@output.with_target
def show_policies(target: Target, identity: str, only: str | None) -> output.CommandResult:
    """Print what to paste into the account of IDENTITY: who may use its role, and the least that it must be allowed."""
    found = target.api().get(f"{_api_path(identity)}/policies", IdentityPolicies)
    documents = found.documents
    if only is not None:
        chosen = next((each for each in documents if each.name == only), None)
        if chosen is None:
            names = ", ".join(each.name for each in documents)
            raise click.UsageError(f"--only {only}: this identity has {names}")
        return output.message(found, chosen.text.rstrip("\n"))

    def show() -> None:
        for each in documents:
            if each.name != "opentofu":
                output.note(f"{each.title}: {each.about}")
                click.echo(each.text.rstrip("\n") + "\n")
        if any(each.name == "opentofu" for each in documents):
            output.note(f"For OpenTofu: `terracrew cloud-identity policies {identity} --only opentofu`")

    return output.CommandResult(found, show)


@click.command("report", epilog=output.examples("terracrew cloud-identity report aws-prod"))
@_identity
@click.option("--last", "is_last", is_flag=True, help="Show what the last look found, without asking the cloud.")
@output.with_target
def look(target: Target, identity: str, is_last: bool) -> output.CommandResult:
    """List what of ours is in the account of IDENTITY, why, who owns it, and what it costs a month."""
    api, path = target.api(), f"{_api_path(identity)}/report"
    found = api.get(path, IdentityReport) if is_last else api.post(path, {}, IdentityReport)
    if found.looked_at is None:
        note = f"nobody has looked yet: `terracrew cloud-identity report {identity}`"
        return output.CommandResult(found, lambda: output.note(note))
    rows = [
        (_owner(each), each.kind, each.name, _made_by(each), _dollars(each.dollars_a_month), each.why)
        for each in found.resources
    ]
    notes = [f"{each.kind} {each.name}: {each.owner_words}" for each in found.resources if each.owner != "runner"]
    unpriced = f", and {found.unpriced} without a known price" if found.unpriced else ""
    notes.append(
        f"{_dollars(found.dollars_a_month)} a month by list prices{unpriced}; looked {output.age(found.looked_at)}"
    )
    columns = ("OWNER", "KIND", "NAME", "MADE BY", "A MONTH", "WHY")
    return output.listing(found, columns, rows, empty="nothing of ours is there", notes=notes)


def _owner(resource: ReportedResource) -> str:
    return resource.runner if resource.owner == "runner" else f"({resource.owner})"


def _made_by(resource: ReportedResource) -> str:
    return f"#{resource.job_number}" if resource.job_number else ""


def _dollars(amount: float | None) -> str:
    return "" if amount is None else f"${amount:,.2f}"


def _read_file(_context: click.Context, _option: click.Parameter, file: io.TextIOBase | None) -> str | None:
    return None if file is None else file.read()


_certificate_option = click.option(
    "--ca-certificate",
    type=click.File(),
    callback=_read_file,
    metavar="FILE",
    help="Kubernetes: the certificates of the API, as PEM [those of the system].",
)


@click.group("cloud-identity", cls=LazyGroup)
def cloud_identity() -> None:
    """Manage the ways into cloud accounts in which runners are started. No key is stored.

    IDENTITY is the path of an identity (`group/name`) or its id.
    """


@cloud_identity.command("list")
@click.option(
    "--usable-in", metavar="GROUP", shell_complete=name_completion.groups, help="Those that its runners may use."
)
@output.with_target
def list_identities(target: Target, usable_in: str | None) -> output.CommandResult:
    """List cloud identities, with the runners that are deployed with them and how their last test ended."""
    items = list(target.api().list("/cloud-identities", IdentityView, usable_in=usable_in))
    rows = [
        (each.path, each.location, each.way, _last_test(each), [found.path for found in each.runners]) for each in items
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
@options.group("The group whose runners may use it, and those below; by default the organization.", default="")
@click.option("--kind", type=click.Choice(["aws", "kubernetes"]), help="The cloud [aws].")
@_certificate_option
@settings.request_options(NewIdentity, "new", own=("name", "group", "kind", "ca_certificate"), defaults=NewIdentity)
@output.with_target
def create(target: Target, new: NewIdentity) -> output.CommandResult:
    """Create a cloud identity called NAME. `policies` then prints what the account needs, and `test` tries it."""
    made = target.api().post("/cloud-identities", new, IdentityView)
    return output.message(
        made,
        f"created the cloud identity {made.path} for {made.location}",
        f"Next: `terracrew cloud-identity policies {made.path}` prints what to paste into the account, and\n"
        f"`terracrew cloud-identity test {made.path}` tries it.",
    )


@cloud_identity.command("show", epilog=output.examples("terracrew cloud-identity show aws-prod"))
@click.argument("identity", shell_complete=name_completion.cloud_identities)
@output.with_target
def show(target: Target, identity: str) -> output.CommandResult:
    """Show IDENTITY with the runners that are deployed with it."""
    found = target.api().get(_api_path(identity), IdentityView)
    return output.details(
        found,
        [
            ("identity", found.path),
            ("id", found.id),
            ("description", found.description),
            ("where", found.location),
            ("way in", found.way),
            ("role", found.role_arn),
            ("issuer", found.issuer if found.way == "web_identity" else ""),
            ("subject", found.subject if found.way == "web_identity" else ""),
            ("audience", found.audience if found.way == "web_identity" else ""),
            ("external id", found.external_id if found.kind == "aws" and found.way == "workload" else ""),
            ("last test", _last_test(found)),
            ("runners", [each.path for each in found.runners] or "none"),
            ("created", output.age(found.created_at)),
        ],
    )


@cloud_identity.command(
    "update", epilog=output.examples("terracrew cloud-identity update aws-prod --description 'acme production'")
)
@click.argument("identity", shell_complete=name_completion.cloud_identities)
@_certificate_option
@settings.request_options(IdentityChange, own=("ca_certificate",))
@output.with_target
def update(target: Target, identity: str, change: IdentityChange) -> output.CommandResult:
    """Change IDENTITY. While runners are deployed with it, its account and region stay."""
    settings.read_changes(change)
    made = target.api().patch(_api_path(identity), change, IdentityView)
    return output.message(made, f"changed the cloud identity {made.path} for {made.location}")


@cloud_identity.command("delete")
@click.argument("identity", shell_complete=name_completion.cloud_identities)
@click.option("--yes", is_flag=True, help="Do not ask. Required without a terminal.")
@output.with_target
def delete(target: Target, identity: str, yes: bool) -> output.CommandResult:
    """Delete IDENTITY, if no runner is deployed with it. One that is created again has another subject."""
    api = target.api()
    if not yes:
        found = api.get(_api_path(identity), IdentityView)
        output.ask(f"{found.path} is deleted. The policies of {found.location} stay there.", "Not deleted.")
    api.delete(_api_path(identity))
    return output.message({"deleted": identity}, f"deleted {identity}")


for _command in (test, show_policies, look):
    cloud_identity.add_command(_command)


def _last_test(found: IdentityView) -> str:
    job = found.last_test
    return f"{job.status} #{job.number}, {output.age(job.created_at)}" if job else ""


def _api_path(identity: str) -> str:
    """Return the path below which the API serves this identity, given its path or id."""
    return f"/cloud-identities/{segment(identity)}"
