"""Finds the id of something that a person names: a token, a user, a service account, a role, a state."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from terracrew.client.address import segment
from terracrew.errors import Conflict, Forbidden, NotFound

if TYPE_CHECKING:
    from terracrew.client.http import Api


def api_path(runner: str) -> str:
    """Return the path below which the API serves a runner, given its path or id."""
    return f"/runners/{segment(runner)}"


def token(api: "Api", named: str) -> str:
    """Return the id of one of your tokens, given its id or name."""
    return _id(api, "/tokens", named, "tok_", "token", lambda each: [each["name"]])


def token_of(api: "Api", owner: str, named: str) -> str:
    """Return the id of a user's token, given its id or name."""
    return _id(api, f"/users/{segment(owner)}/tokens", named, "tok_", "token", lambda each: [each["name"]])


def release_token(api: "Api", named: str) -> str:
    """Return the id of a release token, given its id or name."""
    return _id(api, "/release-tokens", named, "rtk_", "release token", lambda each: [each["name"]])


def user(api: "Api", named: str) -> str:
    """Return the id of a user, given their id or name."""
    return _id(api, "/users", named, "usr_", "user", lambda each: [each["name"]])


def service_account(api: "Api", named: str) -> str:
    """Return the id of a service account, given its id, name or `group/name`."""
    group = named.rpartition("/")[0] or None  # the owner of that group may list its accounts, and perhaps no others
    return _id(api, "/service-accounts", named, "sac_", "service account", _account_names, group=group)


def account_path(api: "Api", account_id: str | None) -> str | None:
    """Return the path of a service account, or its id if the caller may not see the account."""
    if account_id is None:
        return None
    try:
        found: dict[str, Any] = api.get(f"/service-accounts/{segment(account_id)}")
    except (Forbidden, NotFound):
        return account_id
    return _account_names(found)[-1]


def state(api: "Api", named: str, module: str | None) -> str:
    """Return the id of a state, given its id, or its version and its module."""
    if not named.isdecimal():
        return named
    if module is None:
        raise NotFound(
            f"{named} is the version of a state, but no module is named",
            hint="name the module with --module PATH",
        )
    for each in api.list(f"/modules/{segment(module)}/states"):
        if str(each["version"]) == named:
            return each["id"]
    raise NotFound(f"{module} has no state of version {named}", hint=f"`terracrew state list {module}` lists them")


def _account_names(account: dict[str, Any]) -> list[str]:
    group = account.get("group")
    return [account["name"], f"{group}/{account['name']}"] if group else [account["name"]]


def _id(
    api: "Api",
    place: str,
    named: str,
    prefix: str,
    noun: str,
    names: Callable[[dict[str, Any]], list[str]],
    **query: Any,
) -> str:
    if named.startswith(prefix):
        return named
    found = [each for each in api.list(place, **query) if named in names(each)]
    if not found:
        raise NotFound(f"there is no {noun} {named!r}, or you may not see it")
    if len(found) > 1:
        ids = ", ".join(each["id"] for each in found)
        raise Conflict(f"{len(found)} {noun}s are called {named!r}", hint=f"name one by its id: {ids}")
    return found[0]["id"]
