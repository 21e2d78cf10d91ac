"""Sets, removes and lists the inputs of a place, and checks that the caller may do so."""

import contextlib
from collections.abc import Iterable
from typing import Any

import msgspec

from terracrew.api import fields
from terracrew.api.inputs import InputView, Kind, NewInput, Target
from terracrew.api.pages import Page
from terracrew.errors import Invalid, NotFound, Undecryptable
from terracrew.masking import names
from terracrew.protocol.spec import Definition
from terracrew.server.audit import service as audit
from terracrew.server.db.seam import Tx
from terracrew.server.paging import cursor, start
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Place, Verb
from terracrew.server.principals.model import Principal
from terracrew.server.secrets.keyring import Keyring
from terracrew.server.tree.inputs import changes, checks, effective, hidden_values, reads, sealing, store
from terracrew.server.tree.inputs.effective import EffectiveInput
from terracrew.server.tree.inputs.model import FileContent, Input, InputPlace, PlacedInput, SourceModule

_VERBS: dict[Kind, Verb] = {
    "literal": Verb.TREE_WRITE,
    "secret": Verb.SECRET_SET,
    "output": Verb.TREE_WRITE,
    "definition": Verb.TREE_WRITE,
}
_NAMES: dict[Target, str] = {"variable": "variable", "environment": "environment variable", "file": "file"}


def place_of(at: InputPlace) -> Place:
    if at.kind == "module":
        return authorize.module(at.organization_id, at.path)
    return authorize.group(at.organization_id, at.path)


async def put(
    tx: Tx, keys: Keyring, who: Principal, at: InputPlace, new: NewInput, source: SourceModule | None = None
) -> InputView:
    """Set an input. Another kind of input of the same name is replaced, which needs the permissions for both kinds.

    `source` is the module whose output it is. The caller has checked that the reference makes no cycle.
    """
    kind, value = _given(new, source)
    before = await store.current(tx, at.id, new.target, new.name)
    kinds: set[Kind] = {kind} if before is None or before.sealed is None else {kind, before.kind}
    for each in sorted(kinds):
        await authorize.require(tx, who, _VERBS[each], place_of(at))
    if kind == "literal" and new.target != "file":
        value = _restored(keys, before, new, value)
    reference = (source.id, new.output.output) if source and new.output else None
    made = await changes.put(tx, keys, who, at.id, new.target, new.name, kind, value, reference)
    await changes.check_room(tx, at.id)
    if before is None or made.version != before.version:
        await _record(tx, who, at, "set", made)
    [view] = shown(keys, [_placed(made, at, source)], is_module=at.kind == "module", is_inherited=False)
    return view


async def remove(tx: Tx, who: Principal, at: InputPlace, target: Target, name: str) -> None:
    """Remove an input. What is set for the same name at a place above applies from then on."""
    _check_name(target, name)
    before = await store.current(tx, at.id, target, name)
    if before is None or before.sealed is None:
        await authorize.require(tx, who, Verb.TREE_READ, place_of(at))
        raise NotFound(f"{at.words} has no {_NAMES[target]} `{name[:300]}` of its own")
    await authorize.require(tx, who, _VERBS[before.kind], place_of(at))
    await changes.take(tx, who, before)
    await _record(tx, who, at, "remove", before)


async def views(tx: Tx, keys: Keyring, who: Principal, at: InputPlace, *, is_inherited: bool) -> list[InputView]:
    """Return the inputs that apply to a place, or only those that are set at the place itself.

    A module whose output is an input is named only to those who may see it.
    """
    is_module = at.kind == "module"
    found = (await reads.of_modules(tx, [at.id])).get(at.id, []) if is_module else await reads.of_group(tx, at.id)
    listed = shown(keys, found, is_module=is_module, is_inherited=is_inherited)
    if not any(each.source_module for each in listed):
        return listed
    seen = await authorize.visible(tx, who, Verb.TREE_READ)
    return [
        each
        if each.source_module is None or seen.covers(authorize.module(at.organization_id, each.source_module))
        else msgspec.structs.replace(each, source_module=None, is_source_hidden=True)
        for each in listed
    ]


def shown(keys: Keyring, found: Iterable[PlacedInput], *, is_module: bool, is_inherited: bool) -> list[InputView]:
    """Return inputs as people see them. A value that looks like a secret, or contains one, is masked in all of them."""
    applying = [each for each in effective.effective_inputs(found) if is_inherited or each.input.level == 0]
    visible: dict[str, dict[str, Any]] = {"variable": {}, "environment": {}, "file": {}}
    overwriting: set[str] = set()
    definitions: dict[str, Definition] = {}
    problems: dict[str, str] = {}
    for each in (each.input for each in applying):
        try:
            value = sealing.opened(keys, each)
        except Undecryptable as error:
            problems[each.id] = error.message
        else:
            visible[each.target] |= {} if _is_hidden(each) else {each.name: value}
            if each.kind == "definition":
                definitions[each.id] = sealing.opened_definition(keys, each)
            overwriting |= {each.id} if each.target == "file" and value["overwrite"] else set()
    values = hidden_values.shown_inputs(dict[str, Any](visible))  # at once, so that a secret is masked in all of them
    views = [_view(each, values[each.input.target], is_module=is_module) for each in applying]
    return [
        msgspec.structs.replace(
            view,
            problem=problems.get(each.input.id, ""),
            overwrite=each.input.id in overwriting,
            definition=definitions.get(each.input.id),
        )
        for view, each in zip(views, applying, strict=True)
    ]


async def listing(
    tx: Tx, keys: Keyring, who: Principal, at: InputPlace, after: str | None, limit: int, *, is_inherited: bool
) -> Page[InputView]:
    """Return a page of the inputs of a place. A place has few, so they are counted out here."""
    found = await views(tx, keys, who, at, is_inherited=is_inherited)
    rest = [each for each in found if _key(each) > start(after)]
    return Page(rest[:limit], cursor(_key(rest[limit - 1])) if len(rest) > limit else None)


def _key(each: InputView) -> str:
    """Return the text by which inputs are ordered and pages continue."""
    return f"{each.target}:{each.name}"


def _given(new: NewInput, source: SourceModule | None) -> tuple[Kind, Any]:
    named = [each is not None for each in (new.secret, new.output, new.definition)]
    if sum((new.value is not msgspec.UNSET, *named)) != 1:
        raise Invalid("an input has a `value`, a `secret`, an `output` or a `definition`: give exactly one of them")
    if new.overwrite and new.target != "file":
        raise Invalid("only a file can overwrite something", field="overwrite")
    _check_name(new.target, new.name)
    if new.output is not None:
        if new.target == "file" or source is None:
            raise Invalid("an output can be a variable or an environment variable, not a file", field="output")
        checks.check_output(new.output.output)
        return "output", {"module": source.id, "output": new.output.output}
    if new.definition is not None:
        if new.target == "file":
            raise Invalid("a definition can be a variable or an environment variable, not a file", field="definition")
        return "definition", {"definition": new.definition}
    if new.secret is not None:
        checks.check_secret(new.name, new.secret)
        return "secret", FileContent(new.secret, new.overwrite) if new.target == "file" else new.secret
    if new.target == "file":
        if not isinstance(new.value, str):
            raise Invalid(f"file: the content of {new.name} is not a text", field=new.name)
        checks.check_size("file", {new.name: new.value})
        return "literal", FileContent(new.value, new.overwrite)
    if new.target == "variable":
        checks.check_inputs({new.name: new.value})
    elif isinstance(new.value, str):
        checks.check_environment({new.name: new.value})
    else:
        raise Invalid(f"environment: the value of {new.name} is not a text", field=new.name)
    return "literal", new.value


def _check_name(target: Target, name: str) -> None:
    if target == "file":
        checks.check_file_path(name)
    elif target == "environment":
        checks.check_environment({name: ""})
    else:
        checks.check_inputs({name: ""})


def _restored(keys: Keyring, before: Input | None, new: NewInput, value: Any) -> Any:
    """Return the value that was sent, with the stored one wherever the person sent back what they were shown in its place."""
    stored: dict[str, Any] = {}
    if before is not None and before.sealed is not None and before.kind == "literal":
        with contextlib.suppress(Undecryptable):  # it can still be replaced
            stored = {new.name: sealing.opened(keys, before)}
    is_environment = new.target == "environment"
    found = hidden_values.restored({new.name: value}, hidden_values.shown_inputs(stored), stored)
    hidden_values.refuse_hidden("input", hidden_values.still_hidden(found, is_secret=is_environment))
    return found[new.name]


def _placed(each: Input, at: InputPlace, source: SourceModule | None) -> PlacedInput:
    source_path = source.path if source else None
    return PlacedInput(**msgspec.structs.asdict(each), path=at.path, level=0, source_path=source_path)


def _is_hidden(each: Input) -> bool:
    return each.kind != "literal" or each.target == "file"


def _view(each: EffectiveInput, values: dict[str, Any], *, is_module: bool) -> InputView:
    found = each.input
    is_stored = found.kind in ("literal", "secret")
    return fields.created(
        InputView,
        found,
        value=None if _is_hidden(found) else values.get(found.name),
        is_hidden=is_stored and _is_hidden(found),
        place_kind=effective.place_kind(found, is_module=is_module),
        is_inherited=found.level > 0,
        overrides=each.overridden.path if each.overridden else None,
        source_module=found.source_path,
        warning=names.static_key_warning(found.name) if is_stored and found.target != "file" else "",
    )


async def _record(tx: Tx, who: Principal, at: InputPlace, verb: str, each: Input) -> None:
    noun = "secret" if each.kind == "secret" else "input"
    target_kind = "module" if at.kind == "module" else "group"
    details = {"path": at.path, "name": each.name, "target": each.target, "version": each.version}
    await audit.record(tx, who, f"{noun}.{verb}", target_kind, at.id, details, organization_id=at.organization_id)
    tx.wake("tree", at.id)
