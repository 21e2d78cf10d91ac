"""The form that makes a git repository the source of a module, or changes its revision."""

from typing import Any

import msgspec
from litestar import Response, Router, get, post
from litestar.params import FromPath

from terracrew.errors import Invalid
from terracrew.protocol.spec import GitSource
from terracrew.server.dashboard import forms, render
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.dashboard.errors import HANDLERS
from terracrew.server.db.seam import Tx
from terracrew.server.groups import level_reads
from terracrew.server.groups.model import Group
from terracrew.server.modules import service
from terracrew.server.modules.model import Module, ModuleChange
from terracrew.server.principals.authorize import Verb
from terracrew.source_rules.git import REVISION_FIELDS

HERE = "/dashboard/modules"


class SourceForm(msgspec.Struct, frozen=True):
    """The values as they were typed."""

    url: str = ""
    kind: str = ""
    """Which revision is meant: one of REVISION_FIELDS, or '' for the default branch."""
    revision: str = ""
    subdirectory: str = ""
    submodules: str = ""
    credential: str = ""
    known_hosts: str = ""


class SourcePage(msgspec.Struct, frozen=True):
    module: Module
    groups: list[Group]
    """The groups that it is in, the organization first."""

    @property
    def is_repository(self) -> bool:
        return isinstance(self.module.source, GitSource)


def typed(module: Module) -> SourceForm:
    """Return the source of a module as the form shows it. A source of another kind leaves it empty."""
    source = module.source
    if not isinstance(source, GitSource):
        return SourceForm(submodules="true")
    kind = next((name for name in REVISION_FIELDS if getattr(source, name)), "")
    revision = getattr(source, kind) if kind else ""
    return SourceForm(
        url=source.url,
        kind=kind,
        revision=revision,
        subdirectory=source.subdirectory,
        submodules="true" if source.submodules else "",
        credential=source.credential,
        known_hosts=source.known_hosts,
    )


def wanted(form: SourceForm) -> GitSource:
    """Return the source that the form describes; `service.change` checks it."""
    kind, revision = form.kind.strip(), form.revision.strip()
    if kind and kind not in REVISION_FIELDS:
        raise Invalid(f"{kind[:50]!r} is not one of {', '.join(REVISION_FIELDS)}")
    if kind and not revision:
        raise Invalid(f"the {kind} is missing: give its name, or choose the default branch")
    if revision and not kind:
        raise Invalid(f"choose what {revision[:100]!r} is: a branch, a tag, a commit or a range of versions")
    chosen = {kind: revision} if kind else {}
    return GitSource(
        form.url.strip(),
        subdirectory=form.subdirectory.strip().strip("/"),
        submodules=form.submodules == "true",
        credential=form.credential.strip(),
        known_hosts=form.known_hosts.strip(),
        **chosen,
    )


async def _read(tx: Tx, request: DashboardCall, module: str) -> SourcePage:
    found = await service.find(tx, request.user, module, Verb.TREE_WRITE)
    return SourcePage(found, (await level_reads.lineage(tx, found.group_id))[::-1])


@get("/{module:str}/source")
async def source_page(request: DashboardCall, module: FromPath[str]) -> Response[Any]:
    return await _answer(request, module)


@post("/{module:str}/source", status_code=200)
async def change_source(request: DashboardCall, module: FromPath[str]) -> Response[Any]:
    form, context = await forms.read(request, SourceForm), request.context
    page = await context.db.read(lambda tx: _read(tx, request, module))  # a missing module is not an error of the form
    try:
        change = ModuleChange(source=wanted(form))
        await context.db.write(lambda tx: service.change(tx, request.user, page.module.id, change, (), context.keys))
    except Invalid as error:
        return await _answer(request, module, form, error.message)
    return render.go(request, f"{HERE}/{page.module.id}")


async def _answer(
    request: DashboardCall, module: str, form: SourceForm | None = None, wrong: str = ""
) -> Response[Any]:
    page = await request.context.db.read(lambda tx: _read(tx, request, module))
    shown = form or typed(page.module)
    return await render.page(
        request, "module_source/page.html", "module_source/form.html", page=page, form=shown, wrong=wrong
    )


pages = Router(HERE, route_handlers=[source_page, change_source], exception_handlers=HANDLERS, include_in_schema=False)
