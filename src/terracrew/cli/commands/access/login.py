"""`terracrew login` and `logout`: get a token for this command line in a browser or by pasting one, and end it."""

import fcntl
import getpass
import os
import socket
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import click

from terracrew.api.access import Link, Me
from terracrew.cli.connection import profiles
from terracrew.cli.connection.profiles import Profile
from terracrew.cli.connection.target import Target
from terracrew.cli.printing import output
from terracrew.errors import Invalid, NotFound, TerracrewError
from terracrew.system import durable

if TYPE_CHECKING:
    from terracrew.client.logins import GivenToken, Logins

MAX_WAIT_SECONDS = 300.0
MAX_MACHINE_CHARACTERS = 80


@click.command(
    epilog=output.examples(
        "terracrew --url https://terracrew.example.com login",
        "terracrew --url https://terracrew.example.com --profile work login",
        "terracrew login --no-browser",
        "terracrew login --link",
    )
)
@click.option("--link", is_flag=True, help="Instead, print a link that logs you in to the dashboard once.")
@click.option("--token-stdin", is_flag=True, help="Read a token from standard input; a terminal asks for it.")
@click.option(
    "--browser/--no-browser",
    "is_browser",
    default=None,
    help="Log in with a browser of this machine, or print a code to type in a browser elsewhere  [what is possible].",
)
@click.option(
    "--timeout",
    "max_wait_seconds",
    type=click.FloatRange(min=1),
    metavar="SECONDS",
    help="How long to wait for the answer  [300; without a browser, until the code expires].",
)
@output.with_target
def login(
    target: Target, link: bool, token_stdin: bool, is_browser: bool | None, max_wait_seconds: float | None
) -> output.CommandResult:
    """Log in to a server, and store its address and a token for it.

    A browser opens, and you say yes there. On a machine without one, over ssh for example, a code is printed that you
    type into a browser on any machine. The token is called after this machine, expires in 90 days unless you choose
    otherwise, and replaces the one of an earlier login from here; your account page can revoke it.

    Where standard input is not a terminal, a token is read from it: make one with `terracrew token create NAME`, or
    with `terracrew server admin-token` on the server's machine. It is checked before it is stored, in a file that only
    you can read.
    """
    if link:
        made = target.api().post("/me/link", None, Link)
        earlier = "earlier login links, such as the one of the first start, no longer work: use this one"
        return output.message(made, made.link, before=earlier if made.replaces_earlier_link else "")
    if token_stdin and is_browser is not None:
        raise Invalid("--token-stdin logs in without a browser: leave the other option out")
    url, name = target.resolve().url, target.profile or profiles.load().current
    if token_stdin or (is_browser is None and not sys.stdin.isatty()):
        me = _login_with_token(url, name)
    else:
        me = _login_in_browser(url, name, is_browser, max_wait_seconds)
    return output.message({"url": url, "profile": name, "name": me.name}, f"logged in to {url} as {me.name}")


@click.command()
@output.with_target
def logout(target: Target) -> output.CommandResult:
    """Delete the stored token, and revoke it if `terracrew login` got it in a browser.

    A token that was pasted stays valid, because other programs may use it: `terracrew token revoke` ends it.
    """
    with _stored_login():
        stored = profiles.load()
        name = target.profile or stored.current
        profile = stored.profiles.get(name)
        if profile is None or not profile.token:
            raise NotFound(
                f"no token is stored in the profile {name}",
                hint="`terracrew whoami` shows where the token in use comes from",
            )
        profiles.save(stored.with_profile(name, token="", token_id=""))
    value = {"profile": name, "url": profile.url, "revoked": False}
    if not profile.token_id:
        words = f"deleted the stored token for {profile.url}"
        return output.message(value, words, "it was pasted and stays valid: `terracrew token revoke` ends it")
    try:
        _revoke(profile)
    except TerracrewError as error:
        words = f"deleted the stored token for {profile.url}"
        return output.message(value, words, f"it stays valid until you revoke it on your account page: {error.message}")
    return output.message(value | {"revoked": True}, f"logged out of {profile.url}: the token is revoked")


def read_token() -> str:
    """Read a token from standard input, or prompt for it without an echo."""
    if not sys.stdin.isatty():
        return sys.stdin.readline().strip()
    entered: str = click.prompt("Token", hide_input=True, err=True)
    return entered.strip()


def _login_with_token(url: str, name: str) -> Me:
    from terracrew.client.http import Api

    if sys.stdin.isatty():
        output.note(f"paste a token for {url}")
    token = read_token()
    if not token:
        raise Invalid("no token was entered")
    me = Api(url, token).get("/me", Me)
    with _stored_login():
        profiles.save(profiles.load().with_profile(name, url=url, token=token, token_id=""))
    return me


def _login_in_browser(url: str, name: str, is_browser: bool | None, max_wait_seconds: float | None) -> Me:
    from terracrew.cli.connection import browser_login
    from terracrew.client.logins import Logins

    logins, machine = Logins(url), _machine(name)
    if browser_login.can_open() if is_browser is None else is_browser:
        try:
            return _with_browser(logins, name, machine, max_wait_seconds or MAX_WAIT_SECONDS)
        except browser_login.BrowserMissing as error:
            if is_browser:
                raise
            output.note(error.message)
    return _with_code(logins, name, machine, max_wait_seconds)


def _with_browser(logins: "Logins", name: str, machine: str, max_wait_seconds: float) -> Me:
    from terracrew.cli.connection import browser_login

    with browser_login.listening() as answer:
        output.note(f"a browser opens and asks you; without one, open {logins.page(answer.request, machine)}")
        browser_login.open_page(logins, answer.request, machine)
        code = answer.wait(max_wait_seconds)
    with _stored_login():
        return _store(logins.url, name, logins.exchange(answer.request, code))


def _with_code(logins: "Logins", name: str, machine: str, max_wait_seconds: float | None) -> Me:
    from terracrew.cli.connection.device_login import Polling

    code = logins.begin_device(machine)
    polling = Polling(logins, code, max_wait_seconds or code.expires_in)
    output.note(f"open {code.verification_uri} in a browser on any machine, and type the code {code.user_code}")
    output.note(f"it expires in {code.expires_in / 60:g} minutes; tell it to nobody")
    while True:
        polling.pause()
        with _stored_login():
            if given := polling.ask():
                return _store(logins.url, name, given)


def _store(url: str, name: str, given: "GivenToken") -> Me:
    """Check a new token and store it in place of the earlier one, which ends. A token that cannot be stored ends, too."""
    from terracrew.client.http import Api

    made = Profile(name, url, given.access_token, token_id=given.token_id)
    try:
        me = Api(url, given.access_token).get("/me", Me)
        stored = profiles.load()
        earlier = stored.profiles.get(name)
        profiles.save(stored.with_profile(name, url=url, token=made.token, token_id=made.token_id))
    except BaseException:
        with suppress(TerracrewError):
            _revoke(made)
        raise
    if earlier is not None and earlier.url == url and earlier.token_id:
        with suppress(TerracrewError):  # it may have ended already: one of the same name is replaced by the server
            _revoke(earlier)
    return me


def _machine(profile: str) -> str:
    """Return the name by which people recognize this command line: the user, the machine, and a profile of its own."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError, ImportError):
        user = str(os.getuid())
    named = f"{user}@{socket.gethostname().partition('.')[0] or 'unknown'}"
    named += f" ({profile})" if profile != profiles.DEFAULT else ""
    return "".join(each for each in named if each.isprintable()).strip()[:MAX_MACHINE_CHARACTERS].strip()


def _revoke(profile: Profile) -> None:
    from terracrew.client.http import Api

    Api(profile.url, profile.token).delete(f"/tokens/{profile.token_id}")


@contextmanager
def _stored_login() -> Generator[None]:
    """Let one command of this user at a time change which token is stored.

    A second login from here revokes the token of the first one. Without this, the first one could store its token afterwards.
    """
    target = profiles.path()
    durable.make_directory(target.parent)
    with target.with_name(f"{target.name}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
