"""Finds out what a token or an application may do on GitHub, without changing anything there."""

import msgspec

from terracrew.api.forges import Finding
from terracrew.forges import values
from terracrew.forges.contract import ForgeRefused
from terracrew.forges.github.api import AppAccess, InstallationAnswer, TokenAccess
from terracrew.forges.shared_api import Account, RepositoryAnswer

NO_COMMIT = "0" * 40
"""A status of this commit is refused, because there is none: only after the permission was checked."""
_NEEDED = (
    ("contents", "read", "read the code"),
    ("pull_requests", "read", "read pull requests"),
    ("statuses", "write", "write commit statuses"),
    ("issues", "write", "write comments"),
)
_TITLES = {
    "contents": "Contents",
    "pull_requests": "Pull requests",
    "statuses": "Commit statuses",
    "issues": "Issues",
    "hooks": "Webhooks",
}
_RANK = {"read": 1, "write": 2, "admin": 3}


class AppAnswer(msgspec.Struct):
    slug: str
    permissions: dict[str, str] = {}
    events: list[str] = []


async def check(access: AppAccess | TokenAccess, repository: str) -> list[Finding]:
    if isinstance(access, AppAccess):
        return await _of_app(access, repository)
    return await _of_token(access, repository)


async def _of_app(access: AppAccess, repository: str) -> list[Finding]:
    try:
        app = await access.rest.get(AppAnswer, "/app")
    except ForgeRefused as error:
        return [Finding(name="sign in", is_good=False, message=error.message)]
    found = [Finding(name="sign in", is_good=True, message=f"as the application {values.line(app.slug, 100)}")]
    granted, where = app.permissions, "on the page of the application, under Permissions & events"
    if repository:
        try:
            path = f"/repos/{values.path(repository)}/installation"
            granted = (await access.rest.get(InstallationAnswer, path)).permissions
            where += "; then its installation must be approved on the page of the account"
            found.append(Finding(name="find the repository", is_good=True))
        except ForgeRefused:
            message = f"the application is not installed for {repository}: install it there, on its page on GitHub"
            return [*found, Finding(name="find the repository", is_good=False, message=message)]
    for permission, level, name in _NEEDED:
        is_good = _RANK.get(granted.get(permission, ""), 0) >= _RANK[level]
        message = "" if is_good else f"give it {_TITLES[permission]}: {level}, {where}"
        found.append(Finding(name=name, is_good=is_good, message=message))
    missing = [each for each in ("push", "pull_request", "issue_comment") if each not in app.events]
    message = f"subscribe to {', '.join(missing)} {where}; until then, changes are found by polling" if missing else ""
    return [*found, Finding(name="hear of changes", is_good=not missing, message=message)]


async def _of_token(access: TokenAccess, repository: str) -> list[Finding]:
    rest = access.rest
    try:
        user = await rest.get(Account, "/user")
    except ForgeRefused as error:
        return [Finding(name="sign in", is_good=False, message=error.message)]
    found = [Finding(name="sign in", is_good=True, message=f"as {values.line(user.login, 100)}")]
    if not repository:
        return found
    path = f"/repos/{values.path(repository)}"
    try:
        seen = await rest.get(RepositoryAnswer, path)
    except ForgeRefused as error:
        message = f"{error.message}: give the token access to {repository}"
        return [*found, Finding(name="find the repository", is_good=False, message=message)]
    found.append(Finding(name="find the repository", is_good=True))
    may_push, may_administer = ((seen.permissions or {}).get(name, False) for name in ("push", "admin"))
    probes = (
        ("read the code", "contents", "read", "GET", f"{path}/commits/HEAD", None, {200, 409}, True),
        ("read pull requests", "pull_requests", "read", "GET", f"{path}/pulls", None, {200}, True),
        (
            "write commit statuses",
            "statuses",
            "write",
            "POST",
            f"{path}/statuses/{NO_COMMIT}",
            {"state": "pending"},
            {404, 422},
            may_push,
        ),
        ("write comments", "issues", "write", "POST", f"{path}/issues/0/comments", {"body": ""}, {404, 410, 422}, True),
        ("make hooks", "hooks", "write", "GET", f"{path}/hooks", None, {200}, may_administer),
    )
    for name, permission, level, method, address, body, good, is_role_good in probes:
        answer = await rest.probe(method, address, body=body)
        is_good = answer.status in good and is_role_good
        found.append(Finding(name=name, is_good=is_good, message="" if is_good else _remedy(permission, level)))
    return found


def _remedy(permission: str, level: str) -> str:
    classic = "admin:repo_hook" if permission == "hooks" else "repo"
    words = f"give a fine-grained token {_TITLES[permission]}: {level}, or a classic one the scope {classic}"
    if permission == "hooks":
        return f"{words}, of somebody who administers the repository; or make the hook by hand, or leave it to polling"
    return words
