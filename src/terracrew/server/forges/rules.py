"""Checks what people enter about a connection to a forge, and says what is wrong with it. All functions are pure."""

import re

from terracrew.api.forges import ForgeKind, NewForge
from terracrew.errors import Invalid
from terracrew.forges import values
from terracrew.forges.github import api as github
from terracrew.server.forges import addresses
from terracrew.server.forges.model import ForgeCredential

MAX_DESCRIPTION_CHARACTERS = 500
MAX_TOKEN_CHARACTERS = 2_000
MAX_KEY_CHARACTERS = 20_000
_TOKEN = re.compile(r"[!-~]+")
_APP_ID = re.compile(r"[1-9][0-9]{0,18}")
_USERNAME = re.compile(r"[^\s:\x00-\x1f\x7f]{1,255}")
_PUBLIC: dict[ForgeKind, str] = {"github": github.PUBLIC, "gitlab": "https://gitlab.com"}


def base_url(wanted: NewForge) -> str:
    """Return the address of the forge as it is stored."""
    given = wanted.base_url.strip() or _PUBLIC.get(wanted.kind, "")
    if not given:
        raise Invalid.in_field("base_url", "the address of the forge is missing, such as https://git.example.com")
    return addresses.checked_base_url(given)


def check(wanted: NewForge, credential: ForgeCredential) -> None:
    """Raise an error that names the field that is wrong. `credential` is the one that the connection is going to have."""
    if len(wanted.description) > MAX_DESCRIPTION_CHARACTERS:
        raise Invalid.in_field("description", f"it has more than {MAX_DESCRIPTION_CHARACTERS} characters")
    if wanted.owner and (problem := values.name_problem(wanted.owner)):
        raise Invalid.in_field("owner", f"this is not the name of an owner: {problem}")
    if wanted.kind != "github" and (wanted.app_id or credential.private_key):
        raise Invalid.in_field("app_id", "only GitHub has applications: this forge takes a token")
    if wanted.kind != "git" and wanted.username:
        raise Invalid.in_field("username", "only plain git has a user: the others know it by the token")
    if wanted.app_id:
        _check_app(wanted.app_id, credential)
        return
    if credential.private_key:
        raise Invalid.in_field("app_id", "the number of the application is missing that the private key belongs to")
    _check_token(wanted.kind, credential.token)
    if wanted.username and not _USERNAME.fullmatch(wanted.username):
        raise Invalid.in_field("username", "this cannot be the name of a user: it has a space or a colon in it")
    if wanted.username and not credential.token:
        raise Invalid.in_field("token", "the token or password of the user is missing")


def _check_app(app_id: str, credential: ForgeCredential) -> None:
    if not _APP_ID.fullmatch(app_id):
        raise Invalid.in_field("app_id", "this is not the number of an application, which its page on GitHub shows")
    if credential.token:
        raise Invalid.in_field("token", "an application has a private key, and no token")
    if not credential.private_key:
        raise Invalid.in_field("private_key", "the private key of the application is missing")
    if len(credential.private_key) > MAX_KEY_CHARACTERS:
        raise Invalid.in_field("private_key", f"it has more than {MAX_KEY_CHARACTERS} characters")
    github.load_key(credential.private_key)


def _check_token(kind: ForgeKind, token: str) -> None:
    """Check the form of a token. The message never repeats it."""
    if not token:
        if kind != "git":
            raise Invalid.in_field("token", "the token is missing that the forge is asked with")
        return
    if len(token) > MAX_TOKEN_CHARACTERS or not _TOKEN.fullmatch(token):
        words = f"this is not a token: it has at most {MAX_TOKEN_CHARACTERS} printable characters and no space"
        raise Invalid.in_field("token", words)
