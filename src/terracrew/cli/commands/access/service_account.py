"""`terracrew service-account`: manages accounts for programs, their secrets, the tokens that they trust, and the runners that use them."""

import click

from terracrew.api.access import (
    AccountChange,
    ClientSecret,
    CreatedSecret,
    NewPolicy,
    NewSecret,
    NewServiceAccount,
    ServiceAccount,
    ServiceAccountDetails,
    TrustPolicy,
)
from terracrew.api.runners import RunnerChange, RunnerView
from terracrew.cli.arguments import name_completion, options, references, settings
from terracrew.cli.arguments.references import api_path
from terracrew.cli.connection.target import Target
from terracrew.cli.lazy import LazyGroup
from terracrew.cli.printing import output
from terracrew.client.address import segment
from terracrew.errors import Conflict, Invalid


@click.command("assign")
@click.argument("account", shell_complete=name_completion.service_accounts)
@click.argument("runner", shell_complete=name_completion.runners)
@output.with_target
def assign(target: Target, account: str, runner: str) -> output.CommandResult:
    """Let the processes of RUNNER authenticate with ACCOUNT, which must belong to its group or to a group above it."""
    api = target.api()
    change = RunnerChange(service_account=references.service_account(api, account))
    made = api.patch(api_path(runner), change, RunnerView)
    return output.message(made, f"{made.path} authenticates with {account}")


@click.command("unassign")
@click.argument("account", shell_complete=name_completion.service_accounts)
@click.argument("runner", shell_complete=name_completion.runners)
@click.option("--yes", is_flag=True, help="Do not ask.")
@output.with_target
def unassign(target: Target, account: str, runner: str, yes: bool) -> output.CommandResult:
    """Take ACCOUNT away from RUNNER. Connections that were opened with it end within seconds."""
    api = target.api()
    found = api.get(api_path(runner), RunnerView)
    if found.service_account_id != references.service_account(api, account):
        raise Conflict(f"{found.path} does not authenticate with {account}")
    if not yes:
        token = "" if found.has_worker_token else " It has no token of its own, so none of its processes can connect."
        output.ask(
            f"Take {account} away from {found.path}? Connections that were opened with it end within seconds.{token}",
            "Nothing changed.",
        )
    made = api.patch(api_path(runner), RunnerChange(service_account=None), RunnerView)
    return output.message(made, f"{made.path} no longer authenticates with {account}")


@click.group("service-account", cls=LazyGroup)
def service_account() -> None:
    """Manage accounts for programs, and their secrets. ACCOUNT is an account's name, path or id."""


@service_account.command("list")
@click.argument("group", default="", shell_complete=name_completion.groups)
@output.with_target
def list_accounts(target: Target, group: str) -> output.CommandResult:
    """List the service accounts of GROUP and below it, or of the organization."""
    items = list(target.api().list("/service-accounts", ServiceAccount, group=group or None))
    rows = [(i.name, i.group or "(organization)", _status(i), output.age(i.created_at)) for i in items]
    empty = "no service accounts: `terracrew service-account create NAME`"
    return output.listing(items, ("NAME", "GROUP", "STATUS", "CREATED"), rows, empty=empty)


@service_account.command("show")
@click.argument("account", shell_complete=name_completion.service_accounts)
@output.with_target
def show(target: Target, account: str) -> output.CommandResult:
    """Show ACCOUNT with its roles and the runners that use it."""
    api = target.api()
    found = api.get(references.account_path(api, account), ServiceAccountDetails)
    roles = [f"{each.role} of {each.path or 'the organization'}" for each in found.roles]
    return output.details(
        found,
        [
            ("name", found.name),
            ("id", found.id),
            ("group", found.group or "(organization)"),
            ("status", _status(found)),
            ("roles", roles or "none"),
            ("runners", [each.path for each in found.runners] or "none"),
            ("created", output.age(found.created_at)),
        ],
    )


@service_account.command("update")
@click.argument("account", shell_complete=name_completion.service_accounts)
@settings.request_options(AccountChange)
@output.with_target
def update(target: Target, account: str, change: AccountChange) -> output.CommandResult:
    """Rename, disable or enable ACCOUNT. Runners that use a disabled account get no jobs."""
    settings.read_changes(change)
    api = target.api()
    made = api.patch(references.account_path(api, account), change, ServiceAccount)
    return output.message(made, f"service account {made.name} is {_status(made)}")


@service_account.command(
    "create",
    epilog=output.examples(
        "terracrew service-account create ci --group platform",
        "terracrew role grant platform/ci operator --group platform",
        "terracrew service-account add-secret platform/ci",
    ),
)
@click.argument("name")
@options.group("The group that it belongs to [the organization].", default="")
@output.with_target
def create(target: Target, name: str, group: str) -> output.CommandResult:
    """Create the service account NAME. It has no role and no secret yet."""
    made = target.api().post("/service-accounts", NewServiceAccount(name, group), ServiceAccount)
    # The role is suggested for the account's own group: without --group it would apply to the whole organization.
    # An account of the organization has no path, and a user may have the same name.
    named = made.path if made.group else made.id
    return output.message(
        made,
        f"created service account {made.name} ({made.id})",
        f"next: terracrew role grant {named} operator{f' --group {group}' if group else ''}",
        f"and:  terracrew service-account add-secret {named}",
        f"or, without a secret:  terracrew service-account trust add {named} --issuer URL --claim sub=…",
    )


@service_account.command("delete")
@click.argument("account", shell_complete=name_completion.service_accounts)
@click.option("--yes", is_flag=True, help="Do not ask.")
@output.with_target
def delete(target: Target, account: str, yes: bool) -> output.CommandResult:
    """Delete ACCOUNT with its secrets and roles."""
    if not yes:
        output.ask(f"Delete the service account {account} with its secrets and roles?", "Not deleted.")
    api = target.api()
    api.delete(references.account_path(api, account))
    return output.message({"deleted": account}, f"deleted service account {account}")


@service_account.command("secrets")
@click.argument("account", shell_complete=name_completion.service_accounts)
@output.with_target
def secrets(target: Target, account: str) -> output.CommandResult:
    """List the secrets of ACCOUNT, without their values."""
    api = target.api()
    items = list(api.list(f"{references.account_path(api, account)}/secrets", ClientSecret))
    rows = [(i.id, output.age(i.created_at), output.age(i.last_used_at), output.age(i.expires_at)) for i in items]
    return output.listing(items, ("ID", "CREATED", "LAST USED", "EXPIRES"), rows, empty=f"{account} has no secrets")


@service_account.command("add-secret")
@click.argument("account", shell_complete=name_completion.service_accounts)
@settings.request_options(NewSecret, "new")
@output.with_target
def add_secret(target: Target, account: str, new: NewSecret) -> output.CommandResult:
    """Add a secret to ACCOUNT and print the client id and the secret. The secret is shown only once."""
    api = target.api()
    made = api.post(f"{references.account_path(api, account)}/secrets", new, CreatedSecret)
    before = "store the secret now, it is not shown again; programs exchange both values for a token at /connect/token"
    return output.message(made, f"client_id={made.client_id}\nclient_secret={made.client_secret}", before=before)


@service_account.command("revoke-secret")
@click.argument("account", shell_complete=name_completion.service_accounts)
@click.argument("secret_id", metavar="ID")
@output.with_target
def revoke_secret(target: Target, account: str, secret_id: str) -> output.CommandResult:
    """Revoke the secret ID of ACCOUNT. Tokens that were obtained with it become invalid within seconds."""
    api = target.api()
    api.delete(f"{references.account_path(api, account)}/secrets/{segment(secret_id)}")
    return output.message({"revoked": secret_id}, f"revoked {secret_id}")


service_account.add_command(assign)
service_account.add_command(unassign)


def _status(account: ServiceAccount) -> str:
    return "disabled" if account.is_disabled else "enabled"


@click.group("trust", cls=LazyGroup)
def trust() -> None:
    """Let tokens of other issuers (CI systems, clusters, clouds) stand for an account, without a secret."""


@trust.command("list")
@click.argument("account", shell_complete=name_completion.service_accounts)
@output.with_target
def list_policies(target: Target, account: str) -> output.CommandResult:
    """List the trust policies of ACCOUNT."""
    api = target.api()
    items = list(api.list(f"{references.account_path(api, account)}/trust-policies", TrustPolicy))
    rows = [(i.id, i.issuer, i.audience, _claims(i), _use(i), output.age(i.last_used_at)) for i in items]
    empty = (
        f"{account} trusts no issuer: `terracrew service-account trust add {account} --issuer URL --claim NAME=VALUE`"
    )
    return output.listing(
        items, ("ID", "ISSUER", "AUDIENCE", "CLAIMS", "A TOKEN IS USED", "LAST USED"), rows, empty=empty
    )


def _read_claims(_context: click.Context, _option: click.Parameter, claims: tuple[str, ...]) -> dict[str, str]:
    wanted: dict[str, str] = {}
    for claim in claims:
        name, separator, value = claim.partition("=")
        if not separator or not name:
            raise Invalid(f"--claim {claim!r} is not NAME=VALUE")
        if name in wanted:
            raise Invalid(f"the claim {name} is given twice: add one policy for each value")
        wanted[name] = value
    return wanted


@trust.command(
    "add",
    epilog=output.examples(
        "terracrew service-account trust add acme/deploy \\",
        "    --issuer https://gitlab.example.com \\",
        "    --claim project_path=acme/network --claim ref_protected=true",
    ),
)
@click.argument("account", shell_complete=name_completion.service_accounts)
@click.option("--issuer", required=True, metavar="URL", help="The `iss` of the tokens, for example https://gitlab.com.")
@click.option(
    "--claim",
    "claims",
    multiple=True,
    callback=_read_claims,
    metavar="NAME=VALUE",
    help="What a claim must be, for example sub=repo:acme/network:*. `*` and `?` are wildcards. All must match.",
)
@settings.request_options(NewPolicy, "new", own=("issuer", "claims"))
@output.with_target
def add(target: Target, account: str, new: NewPolicy) -> output.CommandResult:
    """Let tokens of an issuer stand for ACCOUNT if their audience and claims match. An account has up to ten policies."""
    api = target.api()
    made = api.post(f"{references.account_path(api, account)}/trust-policies", new, TrustPolicy)
    notes = [
        f"programs send client_id={made.organization_id}:{made.service_account_id} and a token for the audience "
        f"{made.audience} to /connect/token: see docs/federation.md"
    ]
    if not made.claims:
        warning = (
            f"every token of {made.issuer} for the audience {made.audience} now acts as {account}: make sure that only "
            "your own programs can ask for one, or add a policy with --claim instead"
        )
        notes = [warning, *notes]
    return output.message(made, f"{account} trusts {made.issuer} ({made.id})", *notes)


@trust.command("remove")
@click.argument("account", shell_complete=name_completion.service_accounts)
@click.argument("policy_id", metavar="ID")
@output.with_target
def remove(target: Target, account: str, policy_id: str) -> output.CommandResult:
    """Remove the trust policy ID of ACCOUNT. Tokens that were obtained by it become invalid within seconds."""
    api = target.api()
    api.delete(f"{references.account_path(api, account)}/trust-policies/{segment(policy_id)}")
    return output.message({"removed": policy_id}, f"removed {policy_id}")


def _claims(policy: TrustPolicy) -> str:
    return ", ".join(f"{name}={value}" for name, value in sorted(policy.claims.items())) or "(audience only)"


def _use(policy: TrustPolicy) -> str:
    return "until it expires" if policy.is_reusable else "once"


service_account.add_command(trust)
