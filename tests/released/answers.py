"""What a server answers about everything that it has, and whether another one still answers the same."""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from terracrew import ids
from terracrew.server.app import build, close
from terracrew.server.identity.people import service as identity
from terracrew.server.identity.people import sessions, store
from terracrew.server.maintenance.local_token import first_start
from tests.released.filling import ROOTS
from tests.server.application import Application, Person, attached_app, settings_for

LISTS = (
    "audit",
    "cloud-identities",
    "fleet-jobs",
    "groups",
    "jobs",
    "modules",
    "organizations",
    "roles",
    "rollouts",
    "runners",
    "service-accounts",
    "users",
)
DETAILS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "groups": ("path", ("", "/steps")),
    "jobs": ("id", ("", "/log", "/outputs", "/inputs")),
    "modules": ("path", ("", "/state", "/states", "/outputs", "/steps", "/dependencies")),
    "runners": ("path", ("", "/assignments")),
}
"""The field by which an item of a list is asked for, and what is asked."""


@asynccontextmanager
async def open_again(
    database_url: str, folder: Path, clock: Callable[[], float] | None = None
) -> AsyncGenerator[Application]:
    """Open a server of this version on data that there are already, or on none."""
    server = await build(settings_for(folder, database_url, local_roots=ROOTS), clock)
    try:
        with attached_app(server) as app:
            await first_start(server.db, "default")
            user = await server.db.read(lambda tx: store.user(tx, "admin"))
            who = sessions.person(user, None)
            _, token = await identity.create_token(server.db, who, ids.new("tok"), None)
            application = Application(server, app, None)  # pyright: ignore[reportArgumentType]
            application.admin = application.stranger()
            application.admin.headers["Authorization"] = f"Bearer {token.text}"
            application.admin.principal = who
            yield application
    finally:
        await close(server)


async def read(application: Application) -> dict[str, Any]:
    """Return the answers of the API by their paths."""
    admin, found = application.admin, dict[str, Any]()
    for name in LISTS:
        items = found[name] = await admin.listed(f"/api/v1/{name}")
        if name == "jobs":  # what an open job waits for is told with times
            items = [each for each in items if each["finished_at"]]
            found[name] = items + [{"id": each["id"]} for each in found[name] if not each["finished_at"]]
        field, parts = DETAILS.get(name, ("", ()))
        for item in items:
            for part in parts:
                path = f"{name}/{quote(item[field], safe='')}{part}"
                found[path] = await _answer(admin, path)
    for place in ("shop", "shop/prod/network"):
        found[f"inputs?place={place}"] = await admin.listed("/api/v1/inputs", place=place)
    return found


async def _answer(admin: Person, path: str) -> Any:
    answer = await admin.get(f"/api/v1/{path}")
    assert answer.status_code < 500, f"{path}: {answer.text}"
    is_json = "json" in answer.headers.get("content-type", "")
    return {"status": answer.status_code, "content": answer.json() if is_json else answer.text}


def lost(before: Any, after: Any, place: str = "") -> list[str]:
    """Return where something that was there before is missing or different. New fields and new items of a list are no loss."""
    if isinstance(before, dict) and isinstance(after, dict):
        return [
            found
            for key, value in before.items()
            for found in (lost(value, after[key], f"{place}/{key}") if key in after else [f"{place}/{key} is missing"])
        ]
    if isinstance(before, list) and isinstance(after, list):
        missing = [
            place_of for place_of, each in enumerate(before) if not any(not lost(each, other) for other in after)
        ]
        return [f"{place}[{each}] is missing or different: {before[each]!r:.300}" for each in missing]
    return [] if before == after else [f"{place}: {before!r:.200} has become {after!r:.200}"]


def without_changes(before: Any, after: Any) -> Any:
    """Return what two readings of the same server have in common: times and other things that change by themselves are left out."""
    if isinstance(before, dict) and isinstance(after, dict):
        return {
            key: without_changes(value, after[key])
            for key, value in before.items()
            if key in after and (isinstance(value, dict | list) or value == after[key])
        }
    if isinstance(before, list) and isinstance(after, list):
        return [without_changes(*pair) for pair in zip(before, after, strict=False)]
    return before
