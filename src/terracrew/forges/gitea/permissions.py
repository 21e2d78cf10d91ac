"""Finds out what a token may do on Gitea, without changing anything there."""

from terracrew.api.forges import Finding
from terracrew.forges import values
from terracrew.forges.contract import ForgeRefused
from terracrew.forges.rest import Rest
from terracrew.forges.shared_api import Account, RepositoryAnswer

NO_COMMIT = "0" * 40
_UNREADABLE = {"state": 0, "body": 0}
"""A status or a comment with this content is refused, because it should be text: only after the permission was checked."""


async def check(rest: Rest, repository: str) -> list[Finding]:
    try:
        user = await rest.get(Account, "/user")
    except ForgeRefused as error:
        scope = ": give the token the scope read:user" if error.answer_status == 403 else ""
        return [Finding(name="sign in", is_good=False, message=f"{error.message}{scope}")]
    found = [Finding(name="sign in", is_good=True, message=f"as {values.line(user.login, 100)}")]
    if not repository:
        return found
    path = f"/repos/{values.path(repository)}"
    try:
        seen = await rest.get(RepositoryAnswer, path)
    except ForgeRefused as error:
        scope = (
            "give the token the scope read:repository"
            if error.answer_status == 403
            else "add its user to the repository"
        )
        return [*found, Finding(name="find the repository", is_good=False, message=f"{error.message}: {scope}")]
    found.append(Finding(name="find the repository", is_good=True))
    may = seen.permissions or {}
    probes = (
        ("read pull requests", "GET", f"{path}/pulls?limit=1", None, True, "the scope read:repository"),
        (
            "write commit statuses",
            "POST",
            f"{path}/statuses/{NO_COMMIT}",
            _UNREADABLE,
            may.get("push", False),
            "the scope write:repository, and its user the right to write to the repository",
        ),
        ("write comments", "POST", f"{path}/issues/0/comments", _UNREADABLE, True, "the scope write:issue"),
        (
            "make hooks",
            "GET",
            f"{path}/hooks",
            None,
            may.get("admin", False),
            "the scope write:repository, and its user the right to administer the repository; or make the hook by hand, or "
            "leave it to polling",
        ),
    )
    for name, method, address, body, is_role_good, remedy in probes:
        answer = await rest.probe(method, address, body=body)
        is_good = answer.status not in (401, 403) and is_role_good
        found.append(Finding(name=name, is_good=is_good, message="" if is_good else f"give the token {remedy}"))
    return found
