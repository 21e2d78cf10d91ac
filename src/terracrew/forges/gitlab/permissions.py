"""Finds out what a token may do on GitLab, without changing anything there."""

from datetime import date

import msgspec

from terracrew.api.forges import Finding
from terracrew.forges import values
from terracrew.forges.contract import ForgeRefused
from terracrew.forges.gitlab.answers import Member, Project
from terracrew.forges.rest import Rest, decoded

_LEVEL = {"Developer": 30, "Maintainer": 40}


class TokenSelf(msgspec.Struct):
    scopes: list[str] = []
    expires_at: date | None = None


async def check(rest: Rest, repository: str) -> list[Finding]:
    try:
        user = await rest.get(Member, "/user")
    except ForgeRefused as error:
        return [Finding(name="sign in", is_good=False, message=error.message)]
    expiry, scopes = await _token(rest)
    who = f"as {values.line(user.username, 100)}{expiry}"
    found = [Finding(name="sign in", is_good=True, message=who)]
    if scopes is not None:
        is_good = "api" in scopes
        message = (
            "" if is_good else "make a token with the scope api: without it, statuses and comments cannot be written"
        )
        found.append(Finding(name="use the API", is_good=is_good, message=message))
    if not repository:
        return found
    try:
        project = await rest.get(Project, f"/projects/{values.segment(repository)}")
    except ForgeRefused as error:
        message = f"{error.message}: make the token in this project or in a group above it"
        return [*found, Finding(name="find the repository", is_good=False, message=message)]
    found.append(Finding(name="find the repository", is_good=True))
    of = project.permissions
    levels = [each.access_level for each in (of and of.project_access, of and of.group_access) if each]
    level = max(levels, default=0)
    needs = (
        ("read pull requests", _LEVEL["Developer"], "the role Developer"),
        ("write commit statuses", _LEVEL["Developer"], "the role Developer"),
        ("write comments", _LEVEL["Developer"], "the role Developer"),
        ("make hooks", _LEVEL["Maintainer"], "the role Maintainer; or make the hook by hand, or leave it to polling"),
    )
    for name, needed, words in needs:
        is_good = level >= needed
        found.append(Finding(name=name, is_good=is_good, message="" if is_good else f"give the token {words}"))
    return found


async def _token(rest: Rest) -> tuple[str, list[str] | None]:
    """Return when the token ends, in words, and its scopes; None if the server does not say so."""
    path = "/personal_access_tokens/self"
    answer = await rest.probe("GET", path)
    if answer.status != 200:
        return "", None
    token = decoded(TokenSelf, answer, path)
    return (f"; the token expires on {token.expires_at}" if token.expires_at else ""), token.scopes
