"""`terracrew config`, `whoami` and `completion`: which server this command line uses, and as whom."""

import click
import msgspec
from click.shell_completion import get_completion_class

from terracrew.api.access import Me, RoleListed
from terracrew.cli.commands.access.login import read_token
from terracrew.cli.connection import profiles
from terracrew.cli.connection.target import Target
from terracrew.cli.lazy import LazyGroup
from terracrew.cli.printing import output
from terracrew.errors import Invalid


@click.group(cls=LazyGroup)
def config() -> None:
    """Show and set which server this command line uses.

    Flags override TERRACREW_URL and TERRACREW_TOKEN, which override the profile. Without any of them, a server that
    you started on this machine is used.
    """


@config.command("show")
@output.with_target
def show_config(target: Target) -> output.CommandResult:
    """Show the address and the token in use, and where each comes from. Only the start of the token is printed."""
    found, stored = target.resolve(), profiles.load()
    token = f"{found.token[:8]}…" if found.token else ""
    return output.details(
        {
            "url": found.url,
            "url_from": found.url_from,
            "token": token,
            "token_from": found.token_from,
            "organization": found.organization,
            "organization_from": found.organization_from,
            "profile": stored.current,
            "profiles": {name: {"url": each.url} for name, each in stored.profiles.items()},
            "path": str(profiles.path()),
        },
        [
            ("url", f"{found.url}  ({found.url_from})"),
            ("token", f"{token}  ({found.token_from})" if token else "none"),
            ("organization", f"{found.organization}  ({found.organization_from})" if found.organization else ""),
            ("profile", stored.current),
            ("profiles", list(stored.profiles)),
            ("file", profiles.path()),
        ],
    )


@config.command("set")
@click.argument("key", type=click.Choice(["url", "token", "organization", "profile"]))
@click.argument("value", required=False)
@output.with_target
def set_value(target: Target, key: str, value: str | None) -> output.CommandResult:
    """Store url, token or organization in the profile, or choose the profile. A token is read from standard input or a prompt."""
    stored = profiles.load()
    if key == "token":
        if value:
            raise Invalid(
                "everybody on this machine can see a token on a command line",
                hint="leave it out, and paste it when asked",
            )
        value = read_token()
    if not value:
        raise Invalid(f"no value was given: `terracrew config set {key} VALUE`")
    if key == "profile":
        changed = stored.with_current(value)
    else:
        if key == "url":
            from terracrew.client.address import checked

            value = checked(value)
        values = {key: value} | ({"token_id": ""} if key == "token" else {})
        changed = stored.with_profile(target.profile or stored.current, **values)
    profiles.save(changed)
    return output.message({"path": str(profiles.path()), "key": key}, f"stored {key} in {profiles.path()}")


@config.command("path")
@output.json_option
def path() -> output.CommandResult:
    """Print the path of the configuration file."""
    return output.message({"path": str(profiles.path())}, str(profiles.path()))


@click.command()
@output.with_target
def whoami(target: Target) -> output.CommandResult:
    """Show the user and the server of this command line."""
    me = target.api().get("/me", Me)
    found = target.resolve()
    names = {each.id: each.name for each in me.organizations}
    roles = [_role(each, names if len(names) > 1 else {}) for each in me.roles]
    return output.details(
        msgspec.to_builtins(me) | {"url": found.url},
        [
            ("name", me.name),
            ("kind", me.kind.replace("_", " ")),
            ("roles", ["administrator", *roles] if me.is_system_admin else roles or "none"),
            ("organization", names.get(me.organization_id or "")),
            ("organizations", list(names.values()) if len(names) > 1 else ""),
            ("server", f"{found.url}  ({found.url_from})"),
            ("token", f"from {found.token_from}"),
        ],
    )


def _role(binding: RoleListed, names: dict[str, str]) -> str:
    """Return a role with its place, and with the name of its organization if there are several."""
    name = names.get(binding.organization_id)
    return f"{binding.role} of {binding.path or name or 'the organization'}" + (
        f" in {name}" if name and binding.path else ""
    )


_INSTALL = {
    "bash": 'eval "$(terracrew completion bash)"   # in ~/.bashrc',
    "zsh": 'eval "$(terracrew completion zsh)"   # in ~/.zshrc',
    "fish": "terracrew completion fish | source   # in ~/.config/fish/config.fish",
}


@click.command(epilog="\b\n" + "\n".join(_INSTALL.values()))
@click.argument("shell", type=click.Choice(list(_INSTALL)))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script for SHELL."""
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(ctx.find_root().command, {}, "terracrew", "_TERRACREW_COMPLETE").source())
