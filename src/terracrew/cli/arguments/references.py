"""Finds the id of something that a person names: a token, a service account, a state."""

from typing import TYPE_CHECKING, Any, Protocol

from terracrew.api.access import ApiToken, ServiceAccount
from terracrew.api.releases import ReleaseToken
from terracrew.api.states import State
from terracrew.client.address import segment
from terracrew.errors import Conflict, Forbidden, NotFound

if TYPE_CHECKING:
    from terracrew.client.http import Api


class _Named(Protocol):
    @property
    def id(self) -> str: ...
    @property
    def name(self) -> str: ...


def api_path(runner: str) -> str:
    """Return the path below which the API serves a runner, given its path or id."""
    return f"/runners/{segment(runner)}"


def tokens_path(user: str | None) -> str:
    """Return the path below which the API serves your tokens, or those of a user."""
    return f"/users/{segment(user)}/tokens" if user else "/tokens"


def token_path(api: "Api", named: str, user: str | None) -> str:
    """Return the path of one of your tokens, or of one of a user, given its id or name."""
    place = tokens_path(user)
    return f"{place}/{segment(_id(api, place, ApiToken, named, 'tok_', 'token'))}"


def release_token_path(api: "Api", named: str) -> str:
    """Return the path of a release token, given its id or name."""
    return f"/release-tokens/{segment(_id(api, '/release-tokens', ReleaseToken, named, 'rtk_', 'release token'))}"


def service_account(api: "Api", named: str) -> str:
    """Return the id of a service account, given its id, name or `group/name`."""
    group = named.rpartition("/")[0] or None  # the owner of that group may list its accounts, and perhaps no others
    return _id(api, "/service-accounts", ServiceAccount, named, "sac_", "service account", group=group)


def account_path(api: "Api", named: str) -> str:
    """Return the path below which the API serves a service account, given its id, name or `group/name`."""
    return f"/service-accounts/{service_account(api, named)}"


def account_name(api: "Api", account_id: str | None) -> str | None:
    """Return the path of a service account in the tree, or its id if the caller may not see the account."""
    if account_id is None:
        return None
    try:
        return api.get(f"/service-accounts/{segment(account_id)}", ServiceAccount).path
    except (Forbidden, NotFound):
        return account_id


def state(api: "Api", named: str, module: str | None) -> str:
    """Return the id of a state, given its id, or its version and its module."""
    if not named.isdecimal():
        return named
    if module is None:
        raise NotFound(
            f"{named} is the version of a state, but no module is named",
            hint="name the module with --module PATH",
        )
    for each in api.list(f"/modules/{segment(module)}/states", State):
        if str(each.version) == named:
            return each.id
    raise NotFound(f"{module} has no state of version {named}", hint=f"`terracrew state list {module}` lists them")


def _id(api: "Api", place: str, kind: type[_Named], named: str, prefix: str, noun: str, **query: Any) -> str:
    if named.startswith(prefix):
        return named
    found = [each for each in api.list(place, kind, **query) if named in (each.name, getattr(each, "path", ""))]
    if not found:
        raise NotFound(f"there is no {noun} {named!r}, or you may not see it")
    if len(found) > 1:
        ids = ", ".join(each.id for each in found)
        raise Conflict(f"{len(found)} {noun}s are called {named!r}", hint=f"name one by its id: {ids}")
    return found[0].id
