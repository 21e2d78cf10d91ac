"""`terracrew login` and `logout`: store the address of a server and a token for it, and forget the token."""

import sys

import click
import msgspec

from terracrew.cli.commands.config import read_token
from terracrew.cli.connection import profiles
from terracrew.cli.connection.target import Target, pass_target
from terracrew.cli.printing import output
from terracrew.errors import Invalid, NotFound


@click.command(
    epilog=output.examples(
        "terracrew --url https://terracrew.example.com login",
        "terracrew --url https://terracrew.example.com --profile work login",
        "terracrew login --link",
    )
)
@click.option("--link", is_flag=True, help="Instead, print a link that logs you in to the dashboard once.")
@click.option("--token-stdin", is_flag=True, help="Read the token from standard input without asking.")
@output.json_option
@pass_target
def login(target: Target, link: bool, token_stdin: bool) -> output.Result:
    """Store the address of a server and a token for it.

    Create the token with `terracrew token create NAME` where you are logged in, or with `terracrew server admin-token`
    on the server's machine. It is checked before it is stored, in a file that only you can read.
    """
    from terracrew.client.http import Api

    if link:
        made = target.api().post("/me/link")
        earlier = "earlier login links, such as the one of the first start, no longer work: use this one"
        return output.message(made, made["link"], before=earlier if made.get("replaces_earlier_link") else "")
    url = target.resolve().url
    if not token_stdin:
        output.note(f"paste a token for {url}")
    token = sys.stdin.readline().strip() if token_stdin else read_token()
    if not token:
        raise Invalid("no token was entered")
    me = Api(url, token).get("/me")
    stored = profiles.load()
    name = target.profile or stored.current
    profile = stored.profiles.get(name, profiles.Profile(name))
    profiles.save(stored.with_profile(msgspec.structs.replace(profile, url=url, token=token)))
    return output.message({"url": url, "profile": name, "name": me["name"]}, f"logged in to {url} as {me['name']}")


@click.command()
@output.json_option
@pass_target
def logout(target: Target) -> output.Result:
    """Delete the token that `terracrew login` stored. The token itself stays valid: `terracrew token revoke` ends it."""
    stored = profiles.load()
    name = target.profile or stored.current
    profile = stored.profiles.get(name)
    if profile is None or not profile.token:
        raise NotFound(
            f"no token is stored in the profile {name}",
            hint="`terracrew whoami` shows where the token in use comes from",
        )
    profiles.save(stored.with_profile(msgspec.structs.replace(profile, token="")))
    return output.message({"profile": name, "url": profile.url}, f"deleted the stored token for {profile.url}")
