"""`terracrew service-account trust`: manages which tokens of other issuers stand for a service account."""

from typing import Any

import click

from terracrew.cli.arguments import name_completion, references, values
from terracrew.cli.connection.target import Target, pass_target
from terracrew.cli.lazy import LazyGroup
from terracrew.cli.printing import output
from terracrew.client.address import segment
from terracrew.errors import Invalid


@click.group("trust", cls=LazyGroup)
def trust() -> None:
    """Let tokens of other issuers (CI systems, clusters, clouds) stand for an account, without a secret."""


@trust.command("list")
@click.argument("account", shell_complete=name_completion.service_accounts)
@output.json_option
@pass_target
def list_policies(target: Target, account: str) -> output.CommandResult:
    """List the trust policies of ACCOUNT."""
    api = target.api()
    items = api.get(f"/service-accounts/{references.service_account(api, account)}/trust-policies")["items"]
    rows = [(i["id"], i["issuer"], i["audience"], _claims(i), _use(i), output.age(i["last_used_at"])) for i in items]
    empty = (
        f"{account} trusts no issuer: `terracrew service-account trust add {account} --issuer URL --claim NAME=VALUE`"
    )
    return output.listing(
        items, ("ID", "ISSUER", "AUDIENCE", "CLAIMS", "A TOKEN IS USED", "LAST USED"), rows, empty=empty
    )


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
    "--audience",
    default="",
    metavar="TEXT",
    help="The `aud` of the tokens [the address of the server]. Without --claim, it alone must match.",
)
@click.option(
    "--claim",
    "claims",
    multiple=True,
    metavar="NAME=VALUE",
    help="What a claim must be, for example sub=repo:acme/network:*. `*` and `?` are wildcards. All must match.",
)
@click.option("--reusable", "is_reusable", is_flag=True, help="Accept a token more than once until it expires.")
@click.option(
    "--expires-in-days", type=values.WholeNumber(1, 3650), metavar="N", help="The policy expires after N days."
)
@output.json_option
@pass_target
def add(
    target: Target,
    account: str,
    issuer: str,
    audience: str,
    claims: tuple[str, ...],
    is_reusable: bool,
    expires_in_days: int | None,
) -> output.CommandResult:
    """Let tokens of an issuer stand for ACCOUNT if their audience and claims match. An account has up to ten policies."""
    wanted: dict[str, str] = {}
    for claim in claims:
        name, separator, value = claim.partition("=")
        if not separator or not name:
            raise Invalid(f"--claim {claim!r} is not NAME=VALUE")
        if name in wanted:
            raise Invalid(f"the claim {name} is given twice: add one policy for each value")
        wanted[name] = value
    body: dict[str, Any] = {"issuer": issuer, "audience": audience, "claims": wanted, "is_reusable": is_reusable}
    if expires_in_days is not None:
        body["expires_in_days"] = expires_in_days
    api = target.api()
    made = api.post(f"/service-accounts/{references.service_account(api, account)}/trust-policies", body)

    def show() -> None:
        click.echo(f"{account} trusts {made['issuer']} ({made['id']})")
        if not made["claims"]:
            output.note(
                f"every token of {made['issuer']} for the audience {made['audience']} now acts as {account}: make sure that only "
                "your own programs can ask for one, or add a policy with --claim instead"
            )
        output.note(
            f"programs send client_id={made['organization_id']}:{made['service_account_id']} and a token for the audience "
            f"{made['audience']} to /connect/token: see docs/federation.md"
        )

    return output.CommandResult(made, show)


@trust.command("remove")
@click.argument("account", shell_complete=name_completion.service_accounts)
@click.argument("policy_id", metavar="ID")
@output.json_option
@pass_target
def remove(target: Target, account: str, policy_id: str) -> output.CommandResult:
    """Remove the trust policy ID of ACCOUNT. Tokens that were obtained by it become invalid within seconds."""
    api = target.api()
    api.delete(f"/service-accounts/{references.service_account(api, account)}/trust-policies/{segment(policy_id)}")
    return output.message({"removed": policy_id}, f"removed {policy_id}")


def _claims(policy: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in sorted(policy["claims"].items())) or "(audience only)"


def _use(policy: dict[str, Any]) -> str:
    return "until it expires" if policy["is_reusable"] else "once"
