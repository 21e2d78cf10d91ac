"""`terracrew config`: which server this command line uses."""

import sys

import click
import msgspec

from terracrew.cli.connection import profiles
from terracrew.cli.connection.target import Target, pass_target
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
@output.json_option
@pass_target
def show_config(target: Target) -> output.Result:
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
@output.json_option
@pass_target
def set_value(target: Target, key: str, value: str | None) -> output.Result:
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
        name = target.profile or stored.current
        profile = stored.profiles.get(name, profiles.Profile(name))
        if key == "url":
            from terracrew.client.address import checked

            value = checked(value)
        changed = stored.with_profile(msgspec.structs.replace(profile, **{key: value}))
    profiles.save(changed)
    return output.message({"path": str(profiles.path()), "key": key}, f"stored {key} in {profiles.path()}")


@config.command("path")
@output.json_option
def path() -> output.Result:
    """Print the path of the configuration file."""
    return output.message({"path": str(profiles.path())}, profiles.path())


def read_token() -> str:
    """Read a token from standard input, or prompt for it without an echo."""
    if not sys.stdin.isatty():
        return sys.stdin.readline().strip()
    entered: str = click.prompt("Token", hide_input=True, err=True)
    return entered.strip()
