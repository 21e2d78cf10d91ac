"""Decides which inputs apply to a place: of each name, the one of the nearest place."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from terracrew.api.inputs import PlaceKind, UsedInput
from terracrew.engine_rules import import_blocks
from terracrew.protocol.spec import DefinedInput, ExtraFile, ImportedResource, JobLimits, PlaceEnvironment
from terracrew.server.secrets.keyring import Keyring
from terracrew.server.tree.inputs import sealing
from terracrew.server.tree.inputs.model import PlacedInput


class EffectiveInput(msgspec.Struct, frozen=True):
    """An input that applies to a place."""

    input: PlacedInput
    overridden: PlacedInput | None = None
    """The next one above of the same name, which does not apply."""


class JobContent(msgspec.Struct, frozen=True):
    """What a job was given for itself. It takes precedence over everything that is set at places."""

    inputs: dict[str, Any] = {}
    environment: dict[str, str] = {}
    imports: list[ImportedResource] = []
    limits: JobLimits = msgspec.field(default_factory=JobLimits)
    """Those that its request asked for. They are among the limits of its row, which also come from its module and groups."""

    def __repr__(self) -> str:
        return "JobContent(…)"


class OutputValue(msgspec.Struct, frozen=True):
    """The value of an output of another module, when an attempt is claimed."""

    value: Any
    secrets: list[str]
    """The values to mask, if the output is sensitive."""
    sha256: str
    """The checksum of the outputs that it is one of."""
    job_id: str
    """The job that read it."""

    def __repr__(self) -> str:
        return f"OutputValue({self.job_id!r})"


class GivenInputs(msgspec.Struct, frozen=True):
    """What an attempt is given."""

    inputs: dict[str, Any]
    environment: dict[str, str]
    files: list[ExtraFile]
    definitions: list[DefinedInput]
    secrets: list[str]
    """The values of the secrets among them, which are masked whatever their names are."""
    inherited: list[str]
    """The names of the variables among them that are set at a group."""
    used: list[UsedInput]
    revision: list[str]
    """The ids of the versions that are used: they change with every value that is set."""
    imports: list[ImportedResource] = []
    """What the plan imports; the import blocks are one of the files."""
    hook_environments: list[PlaceEnvironment] = []
    """The environment variables of the hooks of groups."""

    def __repr__(self) -> str:
        return f"GivenInputs({len(self.used)} inputs)"


def effective_inputs(found: Iterable[PlacedInput]) -> list[EffectiveInput]:
    """Return the inputs that apply, ordered by target and name."""
    by_name: dict[tuple[str, str], list[PlacedInput]] = {}
    for each in sorted(found, key=lambda each: each.level):
        if each.sealed is not None:
            by_name.setdefault((each.target, each.name), []).append(each)
    return [
        EffectiveInput(nearest, others[0] if others else None)
        for _, (nearest, *others) in sorted(by_name.items(), key=lambda item: item[0])
    ]


def not_replaced(found: Iterable[PlacedInput], own: JobContent) -> list[PlacedInput]:
    """Return the inputs for which a job has no value of its own. A job does not need the others, nor anything that they refer to."""
    job = {"variable": own.inputs, "environment": own.environment}
    return [each for each in found if each.name not in job.get(each.target, {})]


def removed_secret(found: Iterable[PlacedInput], since: datetime) -> PlacedInput | None:
    """Return a secret that would have applied and was removed after `since`, if no nearer place has an input of its name."""
    nearest: dict[tuple[str, str], PlacedInput] = {}
    for each in sorted(found, key=lambda each: each.level):
        is_removed = each.sealed is None
        if not is_removed or (each.kind == "secret" and each.set_at > since):
            nearest.setdefault((each.target, each.name), each)
    return next((each for each in nearest.values() if each.sealed is None), None)


def environment_of_place(found: Iterable[PlacedInput], path: str) -> list[PlacedInput]:
    """Return the environment variables that apply in a group above the module: those that are set there or above it, also where a
    place below has another value."""
    above = [each for each in found if each.target == "environment" and each.level > 0]
    return [each.input for each in effective_inputs(each for each in above if _is_at_or_above(each.path, path))]


def _is_at_or_above(path: str, other: str) -> bool:
    return path in ("", other) or other.startswith(f"{path}/")


def for_hooks(keys: Keyring, found: Sequence[PlacedInput], places: Iterable[str], given: GivenInputs) -> GivenInputs:
    """Return what a job is given with the environment variables of the hooks of these groups, by their paths."""
    environments: list[PlaceEnvironment] = []
    used: dict[str, PlacedInput] = {}
    for place in places:
        inputs = environment_of_place(found, place)
        used |= {each.id: each for each in inputs}
        defined = [each for each in inputs if each.kind == "definition"]
        variables = {each.name: sealing.opened(keys, each) for each in inputs if each.kind != "definition"}
        definitions = [
            DefinedInput("environment", each.name, sealing.opened_definition(keys, each)) for each in defined
        ]
        environments.append(PlaceEnvironment(place, variables, definitions))
    secrets = [sealing.text(keys, each) for each in used.values() if each.kind == "secret"]
    return msgspec.structs.replace(
        given,
        hook_environments=environments,
        secrets=[*given.secrets, *(each for each in secrets if each not in given.secrets)],
        revision=[*given.revision, *sorted(used.keys() - set(given.revision))],
    )


def resolve(
    keys: Keyring, found: Iterable[PlacedInput], own: JobContent, outputs: Mapping[str, OutputValue]
) -> GivenInputs:
    """Return what a job is given: what applies to its module, and what the job was given for itself.

    `outputs` has the values of the inputs that are outputs of other modules, by the ids of the inputs.
    """
    values: Mapping[str, dict[str, Any]] = {"variable": {}, "environment": {}}
    files: list[ExtraFile] = []
    definitions: list[DefinedInput] = []
    secrets: list[str] = []
    used: list[UsedInput] = []
    revision: list[str] = []
    job: Mapping[str, Mapping[str, Any]] = {"variable": own.inputs, "environment": own.environment}
    for each in (each.input for each in effective_inputs(not_replaced(found, own))):
        if each.kind == "output":
            found_output = outputs[each.id]
            value = found_output.value
            is_text = each.target == "variable" or isinstance(value, str)
            values[each.target][each.name] = value if is_text else msgspec.json.encode(value).decode()
            secrets += found_output.secrets
            revision.append(found_output.sha256)
        elif each.kind == "definition" and each.target != "file":
            definitions.append(DefinedInput(each.target, each.name, sealing.opened_definition(keys, each)))
        elif each.target == "file":
            file = sealing.opened_file(keys, each)
            files.append(ExtraFile(each.name, file.content, file.overwrite))
        else:
            values[each.target][each.name] = sealing.opened(keys, each)
        if each.kind == "secret":
            secrets.append(sealing.text(keys, each))
        revision.append(each.id)
        used.append(_used(each, outputs.get(each.id)))
    for target in ("variable", "environment"):
        values[target].update(job[target])
        used += [UsedInput(target, name, "literal", "job") for name in job[target]]
    if own.imports:
        blocks = import_blocks.file_text(own.imports)
        files.append(ExtraFile(import_blocks.FILE_NAME, blocks))
        revision.append(hashlib.sha256(blocks.encode()).hexdigest())
    inherited = [
        each.name for each in used if each.target == "variable" and each.place_kind in ("organization", "group")
    ]
    return GivenInputs(
        values["variable"],
        values["environment"],
        files,
        definitions,
        secrets,
        inherited,
        used,
        revision,
        own.imports,
    )


def place_kind(each: PlacedInput, *, is_module: bool) -> PlaceKind:
    """Return what kind of place an input is set at. `is_module` says whether the place in question is a module."""
    if each.path == "":
        return "organization"
    return "module" if is_module and each.level == 0 else "group"


def _used(each: PlacedInput, output: OutputValue | None) -> UsedInput:
    return UsedInput(
        each.target,
        each.name,
        each.kind,
        place_kind(each, is_module=True),
        each.path,
        each.id,
        each.version,
        each.set_by,
        each.set_by_name,
        each.set_at,
        each.source_path,
        each.source_output,
        output.job_id if output else None,
    )
