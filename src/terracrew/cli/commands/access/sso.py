"""`terracrew sso`: providers of single sign-on, the rules that turn their claims into roles, and what the last logins brought."""

import io

import click

from terracrew.api.access import Role
from terracrew.api.pages import Page
from terracrew.api.sso import (
    DryRun,
    DryRunRule,
    GivenRole,
    LinkedIdentity,
    LinkIdentity,
    LoginPolicy,
    LoginSeen,
    MappingRule,
    NewProvider,
    NewRule,
    ProviderChange,
    ProviderDetails,
    ProviderSettings,
)
from terracrew.cli.arguments import name_completion, settings, values
from terracrew.cli.connection.target import Target
from terracrew.cli.lazy import LazyGroup
from terracrew.cli.printing import details, output
from terracrew.client.address import segment
from terracrew.wording import sso_words as words

MAX_LOGINS = 100


def _content(_context: click.Context, _option: click.Parameter, file: io.TextIOBase | None) -> str | None:
    """Return the secret in a file. Editors end a file with a line break, which is no part of it."""
    return None if file is None else file.read().strip()


_provider = click.argument("provider", shell_complete=name_completion.identity_providers)
_secret_file = click.option(
    "--client-secret-file",
    "client_secret",
    type=click.File(),
    callback=_content,
    metavar="FILE",
    help="A file with the secret of the client; `-` reads it from the input.",
)
_role = click.argument("role", type=click.Choice([each.value for each in Role]))
_claim = click.option(
    "--claim", default="groups", show_default=True, metavar="CLAIM", help="The claim that the rule looks at."
)
_pattern = click.option(
    "--pattern", "is_pattern", is_flag=True, help="`*` and `?` in the value stand for other characters."
)
_place = click.option(
    "--place",
    "path",
    default="",
    shell_complete=name_completion.places,
    help="A group or a module; by default the organization.",
)


@click.group("sso", cls=LazyGroup)
def sso() -> None:
    """Manage single sign-on: providers, rules, and what the last logins brought.

    PROVIDER is the name of a provider or its id.
    """


@sso.command("list", epilog=output.examples("terracrew sso list"))
@output.with_target
def list_providers(target: Target) -> output.CommandResult:
    """List the providers of the organization."""
    items = list(target.api().list("/identity-providers", ProviderDetails))
    rows = [(each.name, each.issuer, "enabled" if each.is_enabled else "disabled", each.id) for each in items]
    empty = "no providers: `terracrew sso create NAME ISSUER`"
    return output.listing(items, ("PROVIDER", "ISSUER", "STATUS", "ID"), rows, empty=empty)


@sso.command(
    "create",
    epilog=output.examples(
        "terracrew sso create Okta https://acme.okta.com",
        "terracrew sso create Keycloak https://id.example.com/realms/acme \\",
        "    --client-id crew --client-secret-file secret.txt --enabled",
    ),
)
@click.argument("name")
@click.argument("issuer")
@_secret_file
@settings.request_options(NewProvider, "new", own=("name", "issuer", "client_secret"), defaults=NewProvider)
@output.with_target
def create(target: Target, new: NewProvider) -> output.CommandResult:
    """Create a provider called NAME, with the address ISSUER that its tokens have as `iss`."""
    return _shown(target.api().post("/identity-providers", new, ProviderDetails))


@sso.command("show", epilog=output.examples("terracrew sso show Okta"))
@_provider
@output.with_target
def show(target: Target, provider: str) -> output.CommandResult:
    """Show PROVIDER, with the addresses that its own settings need."""
    return _shown(target.api().get(_path(provider), ProviderDetails))


@sso.command("update", epilog=output.examples("terracrew sso update Okta --client-id 0oa1 --enabled"))
@_provider
@_secret_file
@settings.request_options(ProviderChange, own=("client_secret",))
@output.with_target
def update(target: Target, provider: str, change: ProviderChange) -> output.CommandResult:
    """Change PROVIDER. What is left out stays."""
    settings.read_changes(change)
    return _shown(target.api().patch(_path(provider), change, ProviderDetails))


@sso.command("delete", epilog=output.examples("terracrew sso delete Okta --yes"))
@_provider
@click.option("--yes", is_flag=True, help="Do not ask. Required without a terminal.")
@output.with_target
def delete(target: Target, provider: str, yes: bool) -> output.CommandResult:
    """Delete PROVIDER with its rules, the roles that they gave, and the sessions that began there."""
    if not yes:
        output.ask(f"The provider {provider} is deleted, with its rules, their roles and its sessions.", "Not deleted.")
    target.api().delete(_path(provider))
    return output.message({"provider": provider, "is_deleted": True}, f"deleted the provider {provider}")


@sso.command("rules", epilog=output.examples("terracrew sso rules Okta"))
@_provider
@output.with_target
def rules(target: Target, provider: str) -> output.CommandResult:
    """List the rules of PROVIDER."""
    items = target.api().get(f"{_path(provider)}/rules", Page[MappingRule]).items
    rows = [(words.condition(each), each.role.value, each.path or "/", each.id) for each in items]
    empty = "no rules: `terracrew sso add-rule PROVIDER VALUE ROLE`"
    return output.listing(items, ("WHO HAS", "IS", "OF", "ID"), rows, empty=empty)


@sso.command(
    "add-rule",
    epilog=output.examples(
        "terracrew sso add-rule Okta platform-admins owner",
        "terracrew sso add-rule Okta 'team-*-ops' operator --pattern --place data",
    ),
)
@_provider
@click.argument("value")
@_role
@_place
@_claim
@_pattern
@output.with_target
def add_rule(
    target: Target, provider: str, value: str, role: str, path: str, claim: str, is_pattern: bool
) -> output.CommandResult:
    """Give ROLE to everybody whose groups, or another claim, are or contain VALUE."""
    wanted = NewRule(value, Role(role), path.strip("/"), claim, is_pattern)
    made = target.api().post(f"{_path(provider)}/rules", wanted, MappingRule)
    return output.message(
        made, f"added the rule {made.id}: who has {words.condition(made)} is {role} of {made.path or '/'}"
    )


@sso.command("remove-rule", epilog=output.examples("terracrew sso remove-rule Okta irl_…"))
@_provider
@click.argument("rule")
@output.with_target
def remove_rule(target: Target, provider: str, rule: str) -> output.CommandResult:
    """Remove RULE, and the roles that followed from it."""
    target.api().delete(f"{_path(provider)}/rules/{segment(rule)}")
    return output.message({"rule": rule, "is_removed": True}, f"removed the rule {rule}")


@sso.command(
    "try-rule",
    epilog=output.examples(
        "terracrew sso try-rule Okta 'team-*' viewer --pattern", "terracrew sso try-rule Okta --replaces irl_…"
    ),
)
@_provider
@click.argument("value", required=False)
@click.argument("role", required=False, type=click.Choice([each.value for each in Role]))
@click.option(
    "--replaces", default="", metavar="RULE", help="The rule that the new one takes the place of, or that is removed."
)
@_place
@_claim
@_pattern
@output.with_target
def try_rule(
    target: Target,
    provider: str,
    value: str | None,
    role: str | None,
    replaces: str,
    path: str,
    claim: str,
    is_pattern: bool,
) -> output.CommandResult:
    """Say whose roles a rule would change, among the people who logged in last. Nothing is changed."""
    if (value is None) != (role is None) or (value is None and not replaces):
        raise click.UsageError("give VALUE and ROLE, or --replaces, or all of them")
    rule = None if value is None or role is None else NewRule(value, Role(role), path.strip("/"), claim, is_pattern)
    found = target.api().post(f"{_path(provider)}/dry-run", DryRunRule(replaces, rule), DryRun)
    rows = [(each.user, given(each.gained), given(each.lost)) for each in found.people]
    empty = f"nobody's roles would change, of {found.examined} people who logged in last"
    return output.listing(found, ("USER", "GAINS", "LOSES"), rows, empty=empty)


@sso.command("logins", epilog=output.examples("terracrew sso logins Okta", "terracrew sso logins Okta --json"))
@_provider
@click.option("--limit", type=values.WholeNumber(1, MAX_LOGINS), default=20, show_default=True, help="How many logins.")
@output.with_target
def logins(target: Target, provider: str, limit: int) -> output.CommandResult:
    """List the last logins at PROVIDER, with the roles that follow. `--json` has the claims and the rules that match."""
    items = target.api().get(f"{_path(provider)}/logins", Page[LoginSeen], limit=limit).items
    rows = [
        (output.age(each.created_at), each.user or each.subject, each.outcome, given(each.roles) or each.reason)
        for each in items
    ]
    notes = sorted({note for each in items for note in each.notes})
    return output.listing(items, ("WHEN", "WHO", "OUTCOME", "ROLES"), rows, empty="no logins yet", notes=notes)


@sso.command("people", epilog=output.examples("terracrew sso people Okta"))
@_provider
@output.with_target
def people(target: Target, provider: str) -> output.CommandResult:
    """List the people of PROVIDER who are users."""
    items = list(target.api().list(f"{_path(provider)}/people", LinkedIdentity))
    rows = [(each.user, each.subject, output.age(each.confirmed_at), each.id) for each in items]
    return output.listing(items, ("USER", "SUB", "CONFIRMED", "ID"), rows, empty="nobody has logged in yet")


@sso.command("link", epilog=output.examples("terracrew sso link Okta ada 00u1abcd"))
@_provider
@click.argument("user", shell_complete=name_completion.users)
@click.argument("subject")
@output.with_target
def link(target: Target, provider: str, user: str, subject: str) -> output.CommandResult:
    """Let the person whom PROVIDER knows by the `sub` SUBJECT log in as USER."""
    made = target.api().post(f"{_path(provider)}/people", LinkIdentity(subject, user), LinkedIdentity)
    return output.message(made, f"{made.subject} of {made.provider} logs in as {made.user}")


@sso.command("unlink", epilog=output.examples("terracrew sso unlink Okta iid_…"))
@_provider
@click.argument("person")
@output.with_target
def unlink(target: Target, provider: str, person: str) -> output.CommandResult:
    """Remove the link of PERSON, an id that `terracrew sso people` shows. The user stays."""
    target.api().delete(f"{_path(provider)}/people/{segment(person)}")
    return output.message({"person": person, "is_removed": True}, f"removed the link {person}")


@sso.command("policy", epilog=output.examples("terracrew sso policy", "terracrew sso policy --required"))
@click.option(
    "--required/--optional", "is_required", default=None, help="Whether people log in by single sign-on only."
)
@output.with_target
def policy(target: Target, is_required: bool | None) -> output.CommandResult:
    """Show or decide whether people log in by single sign-on only. Local administrators always get in with their passwords."""
    if is_required is None:
        found = target.api().get("/login-policy", LoginPolicy)
    else:
        found = target.api().patch("/login-policy", LoginPolicy(is_required), LoginPolicy)
    return output.message(found, f"people log in {words.policy(is_required=found.is_single_sign_on_required)}")


def given(roles: tuple[GivenRole, ...]) -> str:
    return ", ".join(f"{each.role.value} of {each.path or '/'}" for each in roles)


def _path(provider: str) -> str:
    return f"/identity-providers/{segment(provider)}"


def _shown(found: ProviderDetails) -> output.CommandResult:
    chosen = {name: getattr(found, name) for name in ProviderSettings.__struct_fields__}
    return output.details(
        found,
        [
            ("provider", found.name),
            ("id", found.id),
            ("issuer", found.issuer),
            ("status", "enabled" if found.is_enabled else "disabled"),
            ("client secret", "set" if found.has_secret else "none"),
            *details.rows(found, ProviderSettings, chosen, without=("is_enabled",)),
            ("redirect", found.redirect_uri),
            ("back-channel logout", found.backchannel_logout_uri),
            ("front-channel logout", found.frontchannel_logout_uri),
            ("after logout", found.post_logout_redirect_uri),
        ],
    )
