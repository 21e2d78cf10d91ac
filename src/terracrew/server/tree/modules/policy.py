"""The approval rules that apply to a module: how much it may destroy without an approval, and who may approve."""

from collections.abc import Collection, Sequence
from typing import Any, TypeVar

import msgspec

from terracrew.api.groups import ApprovalRule, RuleName
from terracrew.api.modules import Module
from terracrew.api.place_settings import Interrupted, PlaceChoice, PullRequestSettings
from terracrew.api.pull_requests import PullRequestApply
from terracrew.protocol.cloud import CloudIdentities
from terracrew.protocol.dispatcher_choice import DispatcherChoice
from terracrew.protocol.spec import JobLimits
from terracrew.server.db.seam import Row, Tx
from terracrew.server.db.statements import mapping
from terracrew.server.tree.groups import inheritance
from terracrew.server.tree.groups.inheritance import effective, effective_value
from terracrew.server.tree.modules import reads


class DestroyLimits(msgspec.Struct, frozen=True):
    """How much an APPLY may destroy without an approval. None sets no limit; destroying everything always needs one."""

    max_destroy: int | None = None
    max_destroy_percent: int | None = None


class ModulePolicy(msgspec.Struct, frozen=True):
    """Each rule is the strictest of the module and all groups above it, so that nobody weakens the rule of a place from below it."""

    limits: DestroyLimits = DestroyLimits()
    self_approval: bool = True
    """Whether the person who queued a job may approve its plan."""
    service_account_approval: bool = False
    """Whether a service account may approve plans."""
    min_approvals: int = 0
    """How many people must approve each plan before it is applied. 0 means that plans are applied unless something else asks for a
    person; it is at least 1 for a module whose `needs_approval` is set."""
    rules: tuple[ApprovalRule, ...] = ()
    """The same rules, each with the place that it comes from."""

    def place_of(self, name: RuleName) -> str:
        """Return the place whose rule applies, in words."""
        path = next((rule.path for rule in self.rules if rule.name == name), None)
        if path is None:
            return "the default"
        return f"`{path}`" if path else "the organization"


async def of_module(tx: Tx, module_id: str) -> ModulePolicy:
    """Return what applies to a module. Pages, lists, the API and the commands all take it from here."""
    return (await of_modules(tx, [module_id])).get(module_id, ModulePolicy())


async def of_modules(tx: Tx, module_ids: Collection[str]) -> dict[str, ModulePolicy]:
    """Return what applies to each of these modules, by its id."""
    places: dict[str, list[Row]] = {}
    for row in await reads.approval_settings(tx, sorted(set(module_ids))):
        places.setdefault(row["id"], []).append(row)
    return {module_id: _strictest(rows) for module_id, rows in places.items()}


def _strictest(places: Sequence[Row]) -> ModulePolicy:
    rules = inheritance.approval_rules(places)
    found: dict[str, Any] = {rule.name: rule.value for rule in rules}
    return ModulePolicy(
        DestroyLimits(found["max_destroy"], found["max_destroy_percent"]),
        self_approval=bool(found["self_approval"]),
        service_account_approval=bool(found["service_account_approval"]),
        min_approvals=found["min_approvals"],
        rules=tuple(rules),
    )


class PullRequestRules(msgspec.Struct, frozen=True):
    """What happens with pull requests that touch a module."""

    is_planned: bool = True
    apply: PullRequestApply = "never"
    forge_approvals: bool = False


async def pull_request_rules(tx: Tx, module_ids: Collection[str]) -> dict[str, PullRequestRules]:
    """Return what applies to each of these modules, by its id."""
    places: dict[str, list[PullRequestSettings]] = {}
    for row in await reads.pull_request_settings(tx, sorted(set(module_ids))):
        places.setdefault(row["id"], []).append(mapping.row_to(PullRequestSettings, row))
    found: dict[str, PullRequestRules] = {}
    for module_id, settings in places.items():
        known = effective(PullRequestSettings, settings)
        is_planned = known.pull_request_plans is not False
        found[module_id] = PullRequestRules(
            is_planned, known.pull_request_apply or "never", bool(known.forge_approvals)
        )
    return found


T = TypeVar("T")


class JobSettings(msgspec.Struct, frozen=True):
    interrupted: Interrupted
    """What follows an interrupted change: `ask` if the module or a group above it says so."""
    limits: JobLimits
    cloud: CloudIdentities
    dispatcher: DispatcherChoice


async def effective_settings(tx: Tx, modules: Sequence[Module]) -> dict[str, JobSettings]:
    """Return by module id what applies to its jobs, from the module itself and all groups above it."""
    above: dict[str, list[Row]] = {}
    for row in await reads.job_settings_of_groups(tx, sorted({module.id for module in modules})):
        above.setdefault(row["id"], []).insert(0, row)  # the nearest group comes last
    return {module.id: _settings(module, above.get(module.id, [])) for module in modules}


def _settings(module: Module, above: Sequence[Row]) -> JobSettings:
    dispatchers = [module.dispatcher, *_of_groups(above, "dispatcher", "The dispatcher", PlaceChoice)]
    return JobSettings(
        effective_value([module.interrupted, *(row["interrupted"] for row in above)], "interrupted"),
        effective(JobLimits, [module.limits, *_of_groups(above, "limits", "Limits", JobLimits)]),
        effective(CloudIdentities, [module.cloud, *_of_groups(above, "cloud", "Cloud logins", CloudIdentities)]),
        effective(DispatcherChoice, dispatchers),
    )


def _of_groups(above: Sequence[Row], column: str, title: str, kind: type[T]) -> list[T]:
    """Return what the groups that set something have in a column of JSON."""
    found: list[T] = []
    for row in above:
        if row[column] == "{}":
            continue
        try:
            found.append(msgspec.json.decode(row[column], type=kind))
        except msgspec.MsgspecError as error:
            raise mapping.damaged(title, f"of the group {row['group_id']}", error) from error
    return found
