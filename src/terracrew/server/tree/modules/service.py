"""Creates, changes, finds and deletes modules, and checks that the caller may do so."""

import difflib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from terracrew import ids, plugins
from terracrew.api import fields
from terracrew.api.modules import Module, ModuleChange, NewModule
from terracrew.api.pages import Page
from terracrew.api.tags import normalized
from terracrew.errors import Conflict, Invalid, NotFound
from terracrew.protocol.spec import ArchiveSource, GitSource, LocalSource, PluginSource, RegistrySource, Source
from terracrew.server.announcements import channel_store as channels
from terracrew.server.audit import service as audit
from terracrew.server.db.seam import Tx
from terracrew.server.engines import model as engines
from terracrew.server.engines import store as engine_store
from terracrew.server.identity.access import role_store
from terracrew.server.paging import cursor, page, start
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Place, Verb
from terracrew.server.principals.model import SYSTEM, Principal
from terracrew.server.runners import service as runners
from terracrew.server.runners.assignments import store as assignments
from terracrew.server.secrets.keyring import Keyring
from terracrew.server.tree.groups import service as groups
from terracrew.server.tree.groups import store as group_store
from terracrew.server.tree.groups import tree_path as paths
from terracrew.server.tree.inputs import checks as input_checks
from terracrew.server.tree.inputs import store as inputs
from terracrew.server.tree.inputs import trigger_store
from terracrew.server.tree.modules import archives, checks, contents, lock_store, reads, store
from terracrew.server.tree.modules.contents import Content
from terracrew.server.tree.modules.reads import NO_FILTER, ModuleFilter
from terracrew.server.tree.step_settings import store as step_settings
from terracrew.source_rules import configurations
from terracrew.source_rules import git as git_rules
from terracrew.source_rules import registry as registry_rules


def place(module: Module) -> Place:
    return authorize.module(module.organization_id, module.path)


async def find(tx: Tx, who: Principal, reference: str, verb: Verb, unseen: NotFound | None = None) -> Module:
    """Find a module by its id, or by its path in the caller's organization. The caller must have the right to do `verb` with it."""
    if ids.is_id("mod", reference):
        module = await store.get(tx, ids.parse("mod", reference))
    else:
        module = await store.at(tx, who.organization_id or "", paths.parse(reference))
    unseen = unseen or NotFound(f"there is no module `{reference}` here, or you may not see it")
    if module is None:
        raise unseen
    await authorize.require(tx, who, verb, place(module), unseen)
    return module


def asked_for(who: Principal, reference: str) -> tuple[str, str | None, str]:
    """Return what decides which module a reference means: a person acts in several organizations, which may have the same paths."""
    return who.id, who.organization_id, reference


def _at(who: Principal, path: str) -> tuple[str, str]:
    """Return the place of a module in the caller's organization. A text that is no path is the place of none."""
    try:
        return who.organization_id or "", paths.parse(path)
    except Invalid:
        return "", ""


async def hold_at(tx: Tx, module_id: str, path: str) -> None:
    """Lock a module for something that is kept with its path, and refuse it if another request has just given it another one."""
    module = await store.hold(tx, module_id)
    if module is None or module.path != path:
        raise NotFound(f"module `{path}` has just been deleted or moved")


async def hold_many(tx: Tx, wanted: Iterable[tuple[Principal, str]]) -> dict[tuple[str, str | None, str], Module]:
    """Return many modules with few statements, whether their principals may see them or not.

    They are not moved or deleted until the transaction ends: a job gets what the groups say where its module is.

    The keys of the result are those that `asked_for` returns.
    """
    asked = {asked_for(who, reference): (who, reference) for who, reference in wanted}
    by_id = {ids.parse("mod", reference) for _, reference in asked.values() if ids.is_id("mod", reference)}
    modules = {module.id: module for module in await store.hold_many(tx, sorted(by_id))} if by_id else {}
    at = await store.hold_at_many(tx, (_at(*each) for each in asked.values() if not ids.is_id("mod", each[1])))
    found = {
        key: modules.get(ids.parse("mod", reference)) if ids.is_id("mod", reference) else at.get(_at(who, reference))
        for key, (who, reference) in asked.items()
    }
    return {key: module for key, module in found.items() if module is not None}


async def create(tx: Tx, who: Principal, new: NewModule, roots: Sequence[Path], keys: Keyring) -> Module:
    group_path, name = paths.split(paths.parse(new.path))
    organization_id = who.organization_id or ""
    await authorize.require(tx, who, Verb.TREE_WRITE, authorize.group(organization_id, group_path))
    group = await groups.at(tx, who, group_path)
    path = await groups.hold(tx, group, name)
    await check_engine(tx, group.organization_id, new.engine)
    await _remember_versions(tx, new.engine, new.engine_version.strip())
    variables = {} if new.inputs is UNSET else new.inputs
    environment = {} if new.environment is UNSET else new.environment
    input_checks.check_inputs(variables)
    input_checks.check_environment(environment)
    checks.check_workspace(new.engine, new.backend, environment)
    checks.check_audiences(new.oidc_audiences)
    module = fields.created(
        Module,
        new,
        id=ids.new("mod"),
        organization_id=group.organization_id,
        group_id=group.id,
        name=name,
        path=path,
        source=await checked_source(tx, who, organization_id, new.source, roots, new.engine),
        runner_id=await _runner(tx, who, new.runner),
        state_version=0,
        created_at=tx.moment,
        tags=normalized(new.tags),
        engine_version=new.engine_version.strip(),
        inputs=UNSET,
        environment=UNSET,
    )
    groups.check_cloud(module.cloud)
    await store.insert(tx, module)
    given = contents.restored(Content(), variables, environment)
    await contents.save(tx, keys, module.id, given, who)
    await audit.record(tx, who, "module.create", "module", module.id, {"path": path})
    tx.wake("tree", module.id)
    return contents.shown(module, given)


async def change(
    tx: Tx, who: Principal, reference: str, wanted: ModuleChange, roots: Sequence[Path], keys: Keyring
) -> Module:
    before = await store.hold(tx, (await find(tx, who, reference, Verb.TREE_WRITE)).id)
    if before is None:
        raise NotFound(f"module `{reference}` has just been deleted")
    asked = fields.given(wanted)
    others: dict[str, Any] = {"runner_id": await _runner(tx, who, asked["runner"])} if "runner" in asked else {}
    after = fields.changed(before, wanted, inputs=UNSET, environment=UNSET, **others)
    after = msgspec.structs.replace(after, tags=normalized(after.tags), engine_version=after.engine_version.strip())
    if "source" in asked or after.engine != before.engine:
        source = await checked_source(tx, who, before.organization_id, after.source, roots, after.engine)
        after = msgspec.structs.replace(after, source=source) if "source" in asked else after
        if after.source != before.source:
            after = msgspec.structs.replace(after, source_gone="")
    if after.engine != before.engine:
        await check_engine(tx, before.organization_id, after.engine)
    await _remember_versions(tx, after.engine, after.engine_version)
    input_checks.check_inputs(asked.get("inputs", {}))
    input_checks.check_environment(asked.get("environment", {}))
    checks.check_audiences(after.oidc_audiences)
    groups.check_cloud(after.cloud)
    had = await contents.load(tx, keys, before.id)
    has = contents.restored(had, asked.get("inputs", had.inputs), asked.get("environment", had.environment))
    checks.check_workspace(after.engine, after.backend, has.environment)
    if after.backend != before.backend and (count := (await count_contents(tx, before.id)).unfinished_jobs):
        raise Conflict(
            f"module `{before.path}` has {count} unfinished {'job' if count == 1 else 'jobs'}, which would continue without the state "
            "that it has now: cancel them first, or wait, and change the backend then",
            unfinished_jobs=count,
        )
    if (after.backend, after.engine) != (before.backend, before.engine):
        # The holder may let the server keep the state; after any other change, the state of an engine at work would be refused.
        is_brought = after.backend == "terracrew" and after.engine == before.engine
        holder = (who.id, who.credential_id) if is_brought else None
        await lock_store.require_free(tx, before.id, before.path, holder)
    if after == before and has == had:
        return contents.shown(before, had)
    await store.update(tx, after)
    if has != had:
        await contents.save(tx, keys, after.id, has, who)
    # Values are not recorded in the audit log, because inputs and environment may contain secrets.
    changed = [name for name in Module.__struct_fields__ if getattr(before, name) != getattr(after, name)]
    changed += [name for name in Content.__struct_fields__ if getattr(had, name) != getattr(has, name)]
    details = {"path": after.path, "changed": sorted(changed)}
    await audit.record(tx, who, "module.change", "module", after.id, details, organization_id=after.organization_id)
    tx.wake("tree", after.id)
    return contents.shown(after, has)


async def mark_source(tx: Tx, who: Principal, module_id: str, source: Source | None, gone: str) -> bool:
    """Write since which commit the folder of a module is gone, or with '' that it is there. Nothing else of the module changes.

    Returns False if nothing was written: the module is deleted, is marked already, or has another source than this one by now.
    """
    module = await store.hold(tx, module_id)
    if module is None or source not in (None, module.source) or bool(module.source_gone) == bool(gone):
        return False
    await store.mark_source(tx, module_id, gone)
    details = {"path": module.path, "commit": gone or module.source_gone}
    action = "module.source_gone" if gone else "module.source_back"
    await audit.record(tx, who, action, "module", module_id, details, organization_id=module.organization_id)
    tx.wake("tree", module_id)
    return True


async def delete(tx: Tx, who: Principal, reference: str, force: bool) -> None:
    """Delete a module. If it has jobs or states, `force` is required; these are removed later, in small batches."""
    module = await find(tx, who, reference, Verb.TREE_WRITE)
    if await store.hold(tx, module.id) is None:
        raise NotFound(f"module `{module.path}` has just been deleted")
    kept = await count_contents(tx, module.id)
    if kept.unfinished_jobs:
        raise Conflict(f"module `{module.path}` has {kept.unfinished_jobs} unfinished jobs: cancel them first, or wait")
    await lock_store.require_free(tx, module.id, module.path)
    if (kept.jobs or kept.states) and not force:
        raise Conflict(
            f"module `{module.path}` has {kept.jobs} jobs and {kept.states} states, which would be deleted with it. "
            "The resources that it has created would remain, and nothing would manage them: run a DESTROY first, "
            "or ask for force=true (--force on the command line)",
            jobs=kept.jobs,
            states=kept.states,
        )
    await assignments.forget(tx, module.id)
    await inputs.forget(tx, module.id)
    await trigger_store.forget(tx, module.id)
    await step_settings.forget(tx, module.id)
    await channels.forget(tx, module.id)
    await hide(tx, module.id)
    details = {"path": module.path, "jobs": kept.jobs, "states": kept.states}
    await audit.record(tx, who, "module.delete", "module", module.id, details, organization_id=module.organization_id)
    tx.wake("tree", module.id)


async def listing(
    tx: Tx,
    who: Principal,
    group: str | None,
    recursive: bool,
    after: str | None,
    limit: int,
    words: str = "",
    wanted: ModuleFilter = NO_FILTER,
) -> Page[Module]:
    """Return the modules that the reader may see in a group, or also below it, or in the whole organization.

    Those that match words or filters are also searched for below the group, and ordered by group and name.
    """
    seen = await authorize.visible(tx, who, Verb.TREE_READ)
    within = reads.ModuleScope(who.organization_id or "")
    is_search = bool(words.strip()) or wanted != NO_FILTER
    if group is not None:
        found = await groups.on_the_way(tx, who, group, seen)
        within = reads.ModuleScope(found.organization_id, found.id, found.path, recursive or is_search)
    if not is_search:
        return page(store.modules(await reads.page(tx, seen, within, start(after), limit + 1)), limit)
    found_ids = await reads.search(tx, seen, within, words, start(after), limit + 1, wanted)
    made = {each.id: each for each in store.modules(await reads.whole(tx, found_ids[:limit]))}
    items = [made[each] for each in found_ids[:limit] if each in made]
    return Page(items, cursor(items[-1].path) if len(found_ids) > limit and items else None)


async def checked_source(
    tx: Tx,
    who: Principal,
    organization_id: str,
    source: Source,
    roots: Sequence[Path],
    engine: str,
    *,
    is_planned: bool = False,
) -> Source:
    """Return the source if the caller may use it in the organization. An archive gets its size and hash from its row.

    `is_planned` says that it is not part of the request, but the source of the plan that the request applies.

    An archive without a configuration of the engine is refused here. Only the executor can check a folder on a runner's
    machine.
    """
    checks.check_subdirectory(source.subdirectory)
    match source:
        case LocalSource():
            checks.check_local(source, roots)
            return source
        case ArchiveSource(archive_id=""):
            return ArchiveSource("", source.subdirectory)  # nothing was uploaded yet, so no job can run it
        case ArchiveSource():
            return await _checked_archive(tx, who, organization_id, source, engine)
        case PluginSource():
            checks.check_plugin_source(source)
            return source
        case GitSource():
            if source.merge and who.kind != SYSTEM.kind and not is_planned:
                raise Invalid.in_field(
                    "source.merge",
                    "only the server makes the result of merging a pull request: plan the pull request again, or give the address and a "
                    "branch or a commit of the repository",
                )
            git_rules.check(source)
            pack = source.upload
            if pack is not None and await store.hold_archive(tx, pack.archive_id, organization_id) is None:
                raise Invalid.in_field("source.merge", "the pack of this merge result has been removed: merge again")
            return source
        case RegistrySource():
            address = registry_rules.parse(source, engine)
            return msgspec.structs.replace(source, address=f"{address.host}/{address.path}")


async def _checked_archive(
    tx: Tx, who: Principal, organization_id: str, source: ArchiveSource, engine: str
) -> ArchiveSource:
    archive = await store.hold_archive(tx, ids.parse("arc", source.archive_id), organization_id)
    if archive is None or not await archives.may_use(tx, who, archive):
        raise Invalid.in_field(
            "source",
            f"there is no archive {source.archive_id} that you have uploaded, or that a module uses whose jobs you may "
            "run: upload it first (POST /api/v1/archives)",
        )
    known = archive.configurations
    if known is not None and not configurations.has_configuration(known, source.subdirectory, engine):
        raise Invalid.in_field(
            "source", configurations.missing(source.subdirectory, engine, configurations.PATTERNS[engine])
        )
    return ArchiveSource(archive.id, source.subdirectory, archive.sha256, archive.size)


async def check_engine(tx: Tx, organization_id: str, engine: str) -> None:
    """Refuse a name that is probably misspelt. An engine of another package is known once a runner has announced it."""
    checks.check_engine(engine)
    if plugins.has(plugins.ENGINES, engine) or await engine_store.is_announced(tx, organization_id, engine):
        return
    known = await known_engines(tx, organization_id)
    near = difflib.get_close_matches(engine, known, 1)
    meant = f"did you mean {near[0]}?" if near else f"there is {', '.join(known)}."
    raise Invalid.in_field(
        "engine",
        f"no runner has ever had an engine {engine!r}: {meant} An engine of another package is known as soon as a runner that "
        "has it has connected",
    )


async def known_engines(tx: Tx, organization_id: str) -> list[str]:
    """Return the engines of Terracrew, and those of other packages that runners of the organization have announced."""
    return sorted({*plugins.names(plugins.ENGINES), *await engine_store.announced(tx, organization_id)})


async def _remember_versions(tx: Tx, engine: str, wanted: str) -> None:
    """Check the range of versions of a module, and make it known to the statements that compare it with what runners have."""
    if wanted:
        engines.check_range(wanted)
        await engine_store.remember_range(tx, engine, wanted)


async def _runner(tx: Tx, who: Principal, reference: str | None) -> str | None:
    if reference is None:
        return None
    found = await runners.find(tx, who, reference, Verb.RUNNER_READ)
    if found.removing_since is not None:
        raise Conflict(f"runner: `{found.path}` is being removed: name another one, or undrain it first")
    return found.id


class RemainingContents(NamedTuple):
    unfinished_jobs: int
    jobs: int
    states: int


async def count_contents(tx: Tx, module_id: str) -> RemainingContents:
    row = await reads.remains(tx, module_id)
    assert row is not None
    return RemainingContents(row["unfinished"], row["jobs"], row["states"])


async def hide(tx: Tx, module_id: str) -> None:
    """Hide a deleted module and everything that belongs to it from everybody; `retention/deletion` removes what was kept for it.

    It gets into an organization that has no members, so nobody can see it or its jobs, and its path is free.
    """
    group_id = await group_store.ensure_deleted_place(tx)
    await role_store.delete_roles_of_module(tx, module_id)
    await store.hide(tx, module_id, group_store.DELETED_ORGANIZATION, group_id)
    tx.wake("deletions", module_id)
