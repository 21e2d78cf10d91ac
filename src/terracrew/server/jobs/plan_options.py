"""Which options of a plan a job may have, and the flags by which its engine gets them.

Every runner obeys them, because they are flags of the plan, which runners of every version pass on. A server that does not know them
would leave the flags out and plan, or apply, everything. So no such job is created while one uses the database.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from terracrew.api.jobs import NewJob
from terracrew.api.modules import Module
from terracrew.api.plan_options import PlanOptions
from terracrew.errors import Conflict, Invalid
from terracrew.protocol.spec import JobType
from terracrew.server.db import servers
from terracrew.server.db.seam import Tx

ENGINES = ("tofu", "terraform")
MIN_REFRESH_ONLY_PLAN_MIGRATION = 4
MIN_MIGRATION = 12
"""A server that does not know this migration would start a job without its options."""
MAX_AUDITED_ADDRESSES = 10
NONE = PlanOptions()
NOTHING_IMPORTED = (
    "a job with targets, or one that is refresh-only, may pass over what it should import: apply the whole module"
)
_LACKING = {
    "is_refresh_only": "has no plan that only refreshes: ask for a full plan",
    "targets": "gets no targets from Terracrew: leave them out, or set flags of the module's steps",
    "replace": "gets no resources to replace from Terracrew: leave them out, or set flags of the module's steps",
    "refresh": "always refreshes: leave it out",
}


def options_of(asked: PlanOptions) -> PlanOptions:
    """Return the options alone of a job, or of the request for one."""
    return PlanOptions(
        is_refresh_only=asked.is_refresh_only, targets=asked.targets, replace=asked.replace, refresh=asked.refresh
    )


async def check(tx: Tx, asked: NewJob, module: Module) -> None:
    """Raise an error for options that contradict each other, that the engine does not have, or that a server does not know."""
    if options_of(asked) == NONE:
        return
    if module.engine not in ENGINES:
        name = _named(asked)
        raise Invalid.in_field(name, f"{module.engine}, the engine of `{module.path}`, {_LACKING[name]}")
    for name, addresses in (("targets", asked.targets), ("replace", asked.replace)):
        _check_addresses(name, addresses)
    is_destroying = asked.type is JobType.DESTROY or asked.is_destroy_plan
    if asked.is_refresh_only:
        if is_destroying:
            raise Invalid.in_field("is_refresh_only", "a job that destroys cannot be refresh-only")
        if not asked.refresh:
            raise Invalid.in_field("refresh", "a refresh-only job does nothing but refresh: leave out one of the two")
    if asked.replace and (asked.is_refresh_only or is_destroying):
        why = "a refresh-only job changes no resource" if asked.is_refresh_only else "a destroy creates nothing again"
        raise Invalid.in_field("replace", f"{why}: leave out the addresses to replace")
    if asked.import_lost is not None and asked.is_partial:
        raise Invalid.in_field("import_lost", NOTHING_IMPORTED)
    is_known_longer = asked.type is JobType.PLAN and options_of(asked) == PlanOptions(is_refresh_only=True)
    older = await servers.older_than(tx, MIN_REFRESH_ONLY_PLAN_MIGRATION if is_known_longer else MIN_MIGRATION)
    if older:
        raise Conflict(
            f"{older[0]} does not know the options of a plan, and could start this job without them: update it first"
        )


def flags(options: PlanOptions) -> list[str]:
    """Return the arguments of the plan. Each address is part of one, so it cannot be taken for another flag."""
    found = [f"-target={address}" for address in options.targets]
    found += [f"-replace={address}" for address in options.replace]
    found += [] if options.refresh else ["-refresh=false"]
    return [*found, "-refresh-only"] if options.is_refresh_only else found


def details(options: PlanOptions) -> dict[str, Any]:
    """Return what the audit log says of the options of a new job."""
    found: dict[str, Any] = {"is_refresh_only": True} if options.is_refresh_only else {}
    for name, addresses in (("targets", options.targets), ("replace", options.replace)):
        if addresses:
            found[name] = addresses[:MAX_AUDITED_ADDRESSES]
            if len(addresses) > MAX_AUDITED_ADDRESSES:
                found[f"{name}_count"] = len(addresses)
    return found if options.refresh else found | {"refresh": False}


def part_of_hash(options: PlanOptions) -> list[Any]:
    """Return what the hash of a plan's inputs has of the options. It is nothing without any, so that earlier plans keep their hash."""
    found = msgspec.structs.replace(options, is_refresh_only=False)
    return [] if found == NONE else [found]


def _named(asked: PlanOptions) -> str:
    """Return the first option that was asked for."""
    return next(name for name in NONE.__struct_fields__ if getattr(asked, name) != getattr(NONE, name))


def _check_addresses(name: str, addresses: Iterable[str]) -> None:
    for address in addresses:
        if address != address.strip() or not address.isprintable():
            raise Invalid.in_field(
                name,
                f"{address[:80]!r} is not an address: it is one line, such as `module.network` or `aws_instance.web[0]`",
            )
