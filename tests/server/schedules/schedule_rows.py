"""A tree with schedules, whose loop the tests run as several servers do."""

import asyncio
from typing import Any

from terracrew.server.schedules.loop import Schedules
from terracrew.server.schedules.starting import Sources
from tests.server.application import Application, Person

SOURCE = {"kind": "local", "path": "/srv/sources/vpc"}


async def tree(application: Application) -> None:
    """The group `team` with the modules `one` and `two`."""
    await application.admin.made("/api/v1/groups", {"path": "team"})
    for name in ("one", "two"):
        await application.admin.made("/api/v1/modules", {"path": f"team/{name}", "source": SOURCE})


async def made(who: Person, place: str = "team/one", **changes: Any) -> str:
    asked = {"place": place, "name": "nightly", "kind": "PLAN", "cron": "0 * * * *", "late_minutes": 1440}
    return (await who.made("/api/v1/schedules", asked | changes))["id"]


async def step(application: Application, servers: int = 2) -> None:
    """Let several servers look at the same time what is due."""
    server = application.server
    sources = Sources(server.keys, server.settings.local_roots, server.quotas)
    await asyncio.gather(*(Schedules(server.db, sources).step() for _ in range(servers)))


async def shown(application: Application, schedule: str) -> dict[str, Any]:
    return (await application.admin.get(f"/api/v1/schedules/{schedule}")).json()


async def jobs(application: Application) -> list[dict[str, Any]]:
    return await application.admin.listed("/api/v1/jobs")
