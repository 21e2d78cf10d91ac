"""The plan panel of the job page, and the words and signs for changes of plans and states; templates see it as `change_words`."""

import re
from typing import cast, get_args

import msgspec

from terracrew.api.jobs import Job
from terracrew.errors import Invalid, NotFound, RateLimited, Unavailable, Undecryptable
from terracrew.plan_diff.document import ActionFilter, DiffPage, DiffQuery
from terracrew.plan_diff.model import ResourceDiff
from terracrew.protocol.events import PlanSummary, ResourceChange
from terracrew.server.dashboard.badges import Tone
from terracrew.server.dashboard.context import DashboardContext
from terracrew.server.principals.model import Principal
from terracrew.server.runs import plan_diff
from terracrew.wording import plan_words

PAGE_ROWS = 50
_MAX_OPEN = 8
"""How many resources are unfolded when the page is opened."""
_OPEN_ACTIONS = ("replace", "update")
CHANGE_MARKS: dict[str, tuple[str, Tone]] = {
    "create": ("+", "ok"),
    "update": ("~", "warn"),
    "delete": ("−", "bad"),
    "replace": ("±", "bad"),
    "read": ("≤", "idle"),
    "import": ("↓", "ok"),
    "move": ("→", "idle"),
    "forget": ("×", "idle"),
}
"""The sign and the colour of each action of a plan."""
DIFF_FILTERS = {
    "": "All",
    "replace": "Replace",
    "delete": "Destroy",
    "forget": "Forget",
    "update": "Update",
    "move": "Move",
    "import": "Import",
    "create": "Create",
    "read": "Read",
    "drift": "Changed outside",
}
"""The actions of a plan as filters of its resources, and as the word beside each of them."""
STATE_CHANGES = {"create": "Added", "update": "Changed", "delete": "Removed"}
"""What differs between two states."""
ATTRIBUTE_CHANGES = {"create": "is added", "update": "changes", "delete": "is removed"}
LONG_VALUE_CHARACTERS = 140
"""Of a longer value, only the beginning is shown until somebody asks for the rest."""
_ADDRESS = re.compile(r"(.*\.)([^.\[\]\"]+(?:\[.*\])?)\Z", re.DOTALL)
REMEDIES = {"import": "Import it", "look": "Look for it", "refresh": "Nothing to do", "decide": "Decide"}
"""What to do about a lost resource."""
OUTPUT_CHANGES = {"create": "added", "update": "changed", "delete": "removed"}


class PlanPanel(msgspec.Struct, frozen=True):
    job_id: str
    plan: PlanSummary | None
    key: str
    """Changes whenever the panel has to be read again."""
    diff: DiffPage | None = None
    problem: str = ""
    """Why a diff that is stored cannot be shown."""
    action: ActionFilter = ""
    search: str = ""
    start: int = 0

    @property
    def changes(self) -> list[ResourceChange]:
        """Return the changes without attributes, for a plan that has no diff."""
        return plan_words.in_order(self.plan)

    @property
    def has_changes(self) -> bool:
        return plan_words.has_changes(self.plan)

    @property
    def count(self) -> int:
        return sum(self.diff.head.counts.values()) if self.diff else 0

    @property
    def previous(self) -> int:
        return max(0, self.start - PAGE_ROWS)

    def is_open(self, resource: ResourceDiff, position: int) -> bool:
        """Return whether a resource is unfolded at first: what is replaced or updated, and what a search has found."""
        return position <= _MAX_OPEN and (resource.action in _OPEN_ACTIONS or bool(self.search))


def query(action: str, search: str, start: int) -> DiffQuery:
    """Return what to show. A filter that does not exist shows everything."""
    kind = cast("ActionFilter", action if action in get_args(ActionFilter) else "")
    return DiffQuery(kind, search[: plan_diff.MAX_SEARCH_CHARACTERS], max(0, start), PAGE_ROWS)


async def read(
    context: DashboardContext, who: Principal, job: Job, wanted: DiffQuery, known: str = ""
) -> PlanPanel | None:
    """Return the panel, or None if the reader has it already."""
    stored = await plan_diff.find(context.db, job)
    key = f"{job.attempt}-{stored.sha256[:16]}" if stored else f"{job.attempt}-{'planned' if job.plan else 'none'}"
    if known == key:
        return None
    panel = PlanPanel(job.id, job.plan, key, action=wanted.action, search=wanted.search, start=wanted.start)
    if stored is None or job.plan is None:
        return panel
    try:
        found = await plan_diff.page(context.objects, context.keys, context.diffs, who, stored, wanted)
    except (
        Invalid,
        NotFound,
        RateLimited,
        Unavailable,
        Undecryptable,
    ) as error:  # the rest of the page can be shown nevertheless
        return msgspec.structs.replace(panel, problem=error.message)
    return msgspec.structs.replace(panel, diff=found)


def address_parts(address: str) -> tuple[str, str]:
    """Return an address in two parts: where and of which type the resource is, and its name."""
    found = _ADDRESS.match(address)
    return (found[1], found[2]) if found else ("", address)
