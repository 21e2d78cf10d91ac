"""What the settings of a module show besides its own values: what applies from above, what can be chosen, what a deletion ends."""

from typing import Any

import msgspec

from terracrew.server.dashboard import choices
from terracrew.server.dashboard.choices import RunnerChoices
from terracrew.server.db.seam import Tx
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.runs import placement
from terracrew.server.runs.placement import Placement
from terracrew.server.state import importing
from terracrew.server.state import service as states
from terracrew.server.tree.groups import level_reads
from terracrew.server.tree.groups.inheritance import InForce, RuleName, in_force
from terracrew.server.tree.groups.model import Group
from terracrew.server.tree.inputs import dependencies
from terracrew.server.tree.modules import policy, removal, service
from terracrew.server.tree.modules.model import Module
from terracrew.wording import backend_words

_RULES: tuple[RuleName, ...] = ("interrupted", "max_destroy", "max_destroy_percent", "min_approvals")
"""The approval rules that a module can have itself."""


class ModuleSettingsPage(msgspec.Struct, frozen=True):
    module: Module
    groups: list[Group]
    """The groups that it is in, the organization first."""
    placement: Placement
    rules: list[dict[str, Any]]
    """The approval rules that apply to it, as the API shows them."""
    above: dict[str, InForce]
    """The approval rules that would apply if it had none itself."""
    engines: list[str]
    runners: RunnerChoices
    unfinished_jobs: int
    jobs: int
    states: int
    resources: int | None
    """How many resources are in its current state; None where that is not known."""
    users: list[str]
    """The modules that use its outputs."""
    may_run: bool
    may_read_access: bool
    may_bring_state: bool

    @property
    def other_backend(self) -> str:
        return "own" if self.module.backend == "terracrew" else "terracrew"

    @property
    def backend_warning(self) -> str:
        """Return what somebody must know who changes the backend; empty if nothing is lost."""
        module = self.module
        return backend_words.warning(module.path, module.backend, self.other_backend, module.state_version)


async def read(tx: Tx, who: Principal, reference: str) -> ModuleSettingsPage:
    module = await service.find(tx, who, reference, Verb.TREE_WRITE)
    place = service.place(module)
    lineage = await level_reads.lineage(tx, module.group_id)
    remains = await removal.kept(tx, module.id)
    state = await states.kept(tx, module.id)
    return ModuleSettingsPage(
        module=module,
        groups=lineage[::-1],
        placement=await placement.of_module(tx, module.id),
        rules=msgspec.to_builtins((await policy.of_module(tx, module.id)).rules),
        above={name: in_force(lineage, name) for name in _RULES},
        engines=sorted({*await service.known_engines(tx, module.organization_id), module.engine}),
        runners=await choices.runners(tx, who),
        unfinished_jobs=remains.unfinished_jobs,
        jobs=remains.jobs,
        states=remains.states,
        resources=0 if state is None else await states.resource_count(tx, state.state.id),
        users=await dependencies.users(tx, who, module.id),
        may_run=(await authorize.visible(tx, who, Verb.JOB_RUN)).covers(place),
        may_read_access=(await authorize.visible(tx, who, Verb.ACCESS_READ)).covers(place),
        may_bring_state=importing.is_possible(module)
        and (await authorize.visible(tx, who, Verb.STATE_WRITE)).covers(place),
    )
