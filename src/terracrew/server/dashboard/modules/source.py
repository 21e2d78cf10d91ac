"""The source of a module: the fields with which a form describes one, and the page that changes it."""

from collections.abc import Callable
from typing import Any

import msgspec
from litestar import Response, get, post
from litestar.params import FromPath

from terracrew.api.groups import Group
from terracrew.api.modules import Module, ModuleChange
from terracrew.errors import Invalid, NotFound, TerracrewError, TooLarge
from terracrew.protocol.spec import ArchiveSource, GitSource, LocalSource, RegistrySource, Source
from terracrew.server.dashboard import forms, render
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.db.seam import Tx
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.tree.groups import reads
from terracrew.server.tree.modules import archives, service
from terracrew.source_rules.git import REVISION_FIELDS

HERE = "/dashboard/modules"


class SourceFields(msgspec.Struct, frozen=True):
    """The values as they were typed. Only those of the chosen kind count; the others are kept while the form is open."""

    source: str = "archive"
    archive: str = ""
    """The id of the archive that was uploaded."""
    archive_name: str = ""
    """The name of its file on the person's machine, only to be shown again."""
    url: str = ""
    revision_kind: str = ""
    """Which revision is meant: one of REVISION_FIELDS, or '' for the default branch."""
    revision: str = ""
    submodules: bool = False
    credential: str = ""
    known_hosts: str = ""
    address: str = ""
    version: str = ""
    folder: str = ""
    subdirectory: str = ""


def to_form(source: Source) -> SourceFields:
    """Return a source as the form shows it. That of a plug-in leaves the form empty."""
    match source:
        case GitSource():
            kind = next((name for name in REVISION_FIELDS if getattr(source, name)), "")
            return SourceFields(
                "git",
                url=source.url,
                revision_kind=kind,
                revision=getattr(source, kind) if kind else "",
                submodules=source.submodules,
                credential=source.credential,
                known_hosts=source.known_hosts,
                subdirectory=source.subdirectory,
            )
        case RegistrySource():
            below = source.subdirectory
            return SourceFields("registry", address=source.address, version=source.version, subdirectory=below)
        case LocalSource():
            return SourceFields("local", folder=source.path, subdirectory=source.subdirectory)
        case ArchiveSource():
            return SourceFields(archive=source.archive_id, subdirectory=source.subdirectory)
        case _:
            return SourceFields()


def from_form(form: SourceFields) -> Source:
    """Return the source that a form describes. Raises Invalid if something of it is missing; the service checks the rest."""
    make = _KINDS.get(form.source)
    if make is None:
        raise Invalid.in_field("source", f"{form.source[:50]!r} is not one of {', '.join(_KINDS)}")
    return make(form)


def place(form: SourceFields, error: TerracrewError) -> dict[str, str]:
    """Return the message of an error, without the name of its field, by the field of the form that it is about."""
    name, message = (error.field or "", error.reason) if isinstance(error, Invalid) else ("", error.message)
    name = name.removeprefix("source.")
    if name in REVISION_FIELDS and (name != "version" or form.source == "git"):
        name = "revision"
    return {name if name in SourceFields.__struct_fields__ else "source": message}


def _archive(form: SourceFields) -> Source:
    if not form.archive:
        raise Invalid.in_field("source", "choose an archive, and wait until it is uploaded")
    return ArchiveSource(form.archive, _below(form))


def _repository(form: SourceFields) -> Source:
    kind, revision = form.revision_kind.strip(), form.revision.strip()
    if not form.url.strip():
        raise Invalid("write the address of the repository", field="source.url")
    if kind and kind not in REVISION_FIELDS:
        raise Invalid(f"{kind[:50]!r} is not one of {', '.join(REVISION_FIELDS)}", field="source.branch")
    if kind and not revision:
        raise Invalid(f"the {kind} is missing: write it, or choose the default branch", field="source.branch")
    if revision and not kind:
        raise Invalid(
            f"choose what {revision[:100]!r} is: a branch, a tag, a commit or a range of versions",
            field="source.branch",
        )
    chosen: dict[str, Any] = {kind: revision} if kind else {}
    return GitSource(
        form.url.strip(),
        subdirectory=_below(form),
        submodules=form.submodules,
        credential=form.credential.strip(),
        known_hosts=form.known_hosts.strip(),
        **chosen,
    )


def _module_of_registry(form: SourceFields) -> Source:
    if not form.address.strip():
        raise Invalid("write the address of the module", field="source.address")
    return RegistrySource(form.address.strip(), form.version.strip(), _below(form))


def _folder(form: SourceFields) -> Source:
    if not form.folder.strip():
        raise Invalid.in_field("source", "write the path of the folder on the runners")
    return LocalSource(form.folder.strip(), _below(form))


def _below(form: SourceFields) -> str:
    return form.subdirectory.strip().strip("/")


_KINDS: dict[str, Callable[[SourceFields], Source]] = {
    "archive": _archive,
    "git": _repository,
    "registry": _module_of_registry,
    "local": _folder,
}


async def _read(tx: Tx, who: Principal, module: str) -> tuple[Module, list[Group]]:
    """Return a module and the groups that it is in, the organization first."""
    found = await service.find(tx, who, module, Verb.TREE_WRITE)
    return found, (await reads.lineage(tx, found.group_id))[::-1]


@get("/{module:str}/source")
async def source_page(request: DashboardCall, module: FromPath[str]) -> Response[Any]:
    return await _answer(request, module)


@post("/{module:str}/source", status_code=200)
async def change_source(request: DashboardCall, module: FromPath[str]) -> Response[Any]:
    form, context = await forms.read(request, SourceFields), request.context
    found, _ = await request.read(_read, module)  # a missing module is not an error of the form
    try:
        change = ModuleChange(source=from_form(form))
        await request.write(service.change, found.id, change, context.local_roots, context.keys)
    except (Invalid, NotFound, TooLarge) as error:
        return await _answer(request, module, form, place(form, error))
    return render.go(request, f"{HERE}/{found.id}")


async def _answer(
    request: DashboardCall, module: str, form: SourceFields | None = None, wrong: dict[str, str] | None = None
) -> Response[Any]:
    found, groups = await request.read(_read, module)
    return await render.page(
        request,
        "modules/source/form",
        module=found,
        groups=groups,
        form=form or to_form(found.source),
        wrong=wrong or {},
        roots=[str(root) for root in request.context.local_roots],
        max_archive_bytes=archives.MAX_ARCHIVE_BYTES,
    )
