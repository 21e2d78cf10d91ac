"""What the fields of forms offer while somebody types: the runners and their instances that the reader may see."""

import msgspec

from terracrew.server.connections import reads as connections
from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.search import patterns
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.runners import reads, service

MAX_RUNNERS = 300
"""How many runners a field offers. Others can be typed."""
MAX_INSTANCES = 300


class RunnerChoices(msgspec.Struct, frozen=True):
    paths: list[str]
    instances: list[str]
    """The names of the connected instances."""


async def runners(tx: Tx, who: Principal) -> RunnerChoices:
    found = await _first(tx, who)
    return RunnerChoices(await reads.paths(tx, found), await connections.connected_names(tx, found, MAX_INSTANCES))


async def runner_paths(tx: Tx, who: Principal) -> list[str]:
    return await reads.paths(tx, await _first(tx, who))


async def _first(tx: Tx, who: Principal) -> list[str]:
    seen = await authorize.visible(tx, who, Verb.RUNNER_READ)
    within = reads.RunnerScope(who.organization_id or "", is_shared=service.is_shared_seen(who))
    return await reads.by_path(tx, seen, within, None, patterns(""), 0, MAX_RUNNERS)
