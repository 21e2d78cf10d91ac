"""What the pages of connections to forges show, and how they read it."""

from typing import Literal, get_args

import msgspec

from terracrew.api.forges import (
    ForgeDeliveryView,
    ForgeKind,
    ForgeRepositoryView,
    ForgeView,
    NewForge,
)
from terracrew.api.groups import Group
from terracrew.errors import Forbidden
from terracrew.server.dashboard import field_forms, forms
from terracrew.server.dashboard.field_forms import FieldContext, FormField
from terracrew.server.dashboard.forges import people
from terracrew.server.dashboard.forges.people import ForgePeople
from terracrew.server.dashboard.tree import inputs
from terracrew.server.db.seam import Tx
from terracrew.server.forges import service
from terracrew.server.forges.model import ForgeConnection
from terracrew.server.forges.service import ForgeConnections
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.tree.inputs.model import InputPlace
from terracrew.server.tree.modules import places

HERE = "/dashboard/forges"
PAGE_ROWS = 50
MAX_SHOWN_REPOSITORIES = 100
MAX_SHOWN_DELIVERIES = 30
ForgeForm = Literal["github", "github-app", "gitlab", "gitea", "git"]
"""What the form of a connection asks for: its kind, and for GitHub one of two ways."""
FORMS: tuple[ForgeForm, ...] = get_args(ForgeForm)
FORM_WORDS: dict[ForgeForm, tuple[str, str]] = {
    "github": (
        "GitHub with a token",
        "A personal access token, fine-grained or classic, of github.com or Enterprise Server.",
    ),
    "github-app": (
        "GitHub with an application that exists",
        "Its number and its private key, from its page on GitHub.",
    ),
    "gitlab": (
        "GitLab",
        "A token of a project, a group or a person with the scope api, of gitlab.com or a server of your own.",
    ),
    "gitea": ("Gitea or Forgejo", "A token that can write repositories and issues."),
    "git": ("Plain git", "Any git repositories over https. Their branches are polled; there are no pull requests."),
}
_KINDS: dict[ForgeForm, ForgeKind] = {
    "github": "github",
    "github-app": "github",
    "gitlab": "gitlab",
    "gitea": "gitea",
    "git": "git",
}
_OWN_FIELDS: dict[ForgeForm, tuple[str, ...]] = {
    "github": ("token", "owner", "makes_hooks", "merges"),
    "github-app": ("app_id", "private_key", "owner", "makes_hooks", "merges"),
    "gitlab": ("token", "owner", "makes_hooks", "merges"),
    "gitea": ("token", "owner", "makes_hooks", "merges"),
    "git": ("username", "token"),
}
_KEPT = "Leave it empty to keep the present one."


class ForgesPanel(msgspec.Struct, frozen=True):
    """The connections that serve the modules of a place, on its page."""

    place: InputPlace
    connections: list[ForgeConnection]
    may_change: bool


class ForgesPage(msgspec.Struct, frozen=True):
    connections: list[ForgeView]
    next: str | None
    after: str | None
    may_add: bool


class ForgeActivity(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of a connection, which is fetched again when something has changed."""

    forge: ForgeView
    repositories: list[ForgeRepositoryView]
    has_more_repositories: bool
    deliveries: list[ForgeDeliveryView]
    people: ForgePeople
    may_change: bool


class ForgePage(msgspec.Struct, frozen=True, kw_only=True):
    """A connection, of which there may be none yet."""

    form: ForgeForm
    groups: list[Group]
    """The groups on the way to that of the connection, the organization first; empty if there is none yet."""
    offers: list[str]
    """The groups in which the reader may make one."""
    activity: ForgeActivity | None
    empty: NewForge
    """What the form of a new connection shows."""

    @property
    def forge(self) -> ForgeView | None:
        return self.activity.forge if self.activity else None

    @property
    def may_change(self) -> bool:
        return self.activity is None or self.activity.may_change

    @property
    def settings(self) -> NewForge:
        return self.empty

    @property
    def shown(self) -> list[FormField]:
        """Return the fields of the form."""
        kept = FieldContext(note=_KEPT if self.activity else "")
        names = ("name", *_OWN_FIELDS[self.form], "description")
        return field_forms.layout(NewForge, names, {"token": kept, "private_key": kept})


async def read_list(tx: Tx, who: Principal, connections: ForgeConnections, after: str | None) -> ForgesPage:
    found = await connections.listing(tx, who, after, PAGE_ROWS)
    return ForgesPage(found.items, found.next, after, bool(await forms.offer_groups(tx, who, Verb.TREE_WRITE)))


async def read_new(tx: Tx, who: Principal, form: ForgeForm, group: str, base_url: str = "") -> ForgePage:
    """Return the form for a new connection of a group that the reader may change."""
    offers = await forms.offer_groups(tx, who, Verb.TREE_WRITE)
    if not offers:
        raise Forbidden("you may not make a connection to a forge: ask an owner of a group for a role")
    chosen = group if group in offers or not offers else offers[0]
    empty = NewForge(name="", kind=_KINDS[form], group=chosen, base_url=base_url)
    return ForgePage(form=form, groups=[], offers=offers, activity=None, empty=empty)


async def read_one(tx: Tx, who: Principal, connections: ForgeConnections, reference: str) -> ForgePage:
    activity = await read_activity(tx, who, connections, reference)
    found = await service.find(tx, who, activity.forge.id)
    at = await places.find(tx, who, found.group_id)
    return ForgePage(
        form=_form_of(activity.forge),
        groups=await inputs.lineage(tx, who, at),
        offers=[],
        activity=activity,
        empty=service.as_new(found),
    )


async def read_activity(tx: Tx, who: Principal, connections: ForgeConnections, reference: str) -> ForgeActivity:
    found = await service.find(tx, who, reference)
    repositories = await service.list_repositories(tx, who, found.id, None, MAX_SHOWN_REPOSITORIES)
    deliveries = await service.list_deliveries(tx, who, found.id, None, MAX_SHOWN_DELIVERIES)
    return ForgeActivity(
        forge=connections.view(found),
        repositories=repositories.items,
        has_more_repositories=repositories.next is not None,
        deliveries=deliveries.items,
        people=await people.read(tx, who, found.id),
        may_change=await authorize.may(tx, who, Verb.TREE_WRITE, service.place(found)),
    )


async def panel(tx: Tx, who: Principal, at: InputPlace) -> ForgesPanel:
    """Return the connections that serve a place, as far as the reader may see them."""
    may_change = await authorize.may(tx, who, Verb.TREE_WRITE, authorize.group(at.organization_id, at.path))
    return ForgesPanel(at, await service.that_serve(tx, who, at.organization_id, at.path), may_change)


def chosen_form(typed: str) -> ForgeForm | None:
    return next((each for each in FORMS if each == typed), None)


def _form_of(forge: ForgeView) -> ForgeForm:
    return "github-app" if forge.app_id else forge.kind
