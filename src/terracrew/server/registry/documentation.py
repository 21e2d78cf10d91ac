"""Makes the documentation of a version from its files: inputs, outputs, what it needs, its README and its examples.

The files are of strangers to whoever reads the page, so everything has a bound, and what cannot be read is said and left out.
"""

import io
import posixpath
import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, cast

import msgspec

from terracrew.api.registry import (
    DocumentedExample,
    DocumentedInput,
    DocumentedOutput,
    DocumentedRequirement,
    FolderDocumentation,
    ModuleDocumentation,
)
from terracrew.errors import Invalid, TerracrewError
from terracrew.source_rules import archive, configurations, hcl_blocks
from terracrew.source_rules.hcl_blocks import HclBlock

MAX_FILE_BYTES = 256 << 10
MAX_BYTES = 2 << 20
MAX_DOCUMENT_BYTES = 512 << 10
"""The largest documentation that is stored. Of a larger one, submodules and examples are left out."""
MAX_FOLDERS = 50
"""How many submodules, and how many examples, are described."""
MAX_ITEMS = 500
MAX_TEXT_CHARACTERS = 4_000
MAX_README_CHARACTERS = 60_000
MAX_READMES_CHARACTERS = 120_000
"""How long the READMEs are together. A page renders all of them."""
MAX_EXAMPLE_CHARACTERS = 20_000
_FOLDER = re.compile(r"(?:(modules|examples)/([^/]+)/)?[^/]+")
_README = ("README.md", "readme.md", "README")
_OVERRIDE = re.compile(r"(?:\A|_)override\.")
Files = Mapping[str, str | None]
"""The texts of files; None for those that are not read."""
Described = TypeVar("Described", FolderDocumentation, DocumentedExample)


def of_archive(content: bytes) -> ModuleDocumentation:
    """Read the files of an archive. Raises Invalid if a local module of it lies outside of it."""
    found = archive.read_files(io.BytesIO(content), _is_wanted, max_file_bytes=MAX_FILE_BYTES, max_bytes=MAX_BYTES)
    return of_files(
        {path: None if content is None else content.decode(errors="replace") for path, content in found.items()}
    )


def of_files(files: Files) -> ModuleDocumentation:
    folders: dict[str, dict[str, str | None]] = {"": {}}
    for path, text in sorted(files.items()):
        folder, name = posixpath.split(path)
        folders.setdefault(folder, {})[name] = text
    described = [_folder(each, folders[each]) for each in folders if not each.startswith("examples/")]
    for each in described:
        _check_local(each)
    main = described[0]
    submodules = [each for each in described[1:] if each.inputs or each.outputs or each.readme or each.resources]
    examples = [_example(each, folders[each]) for each in folders if each.startswith("examples/")]
    room = MAX_READMES_CHARACTERS - len(main.readme)
    examples, room = _shortened(examples[:MAX_FOLDERS], room)
    submodules, _ = _shortened(submodules[:MAX_FOLDERS], room)
    made = ModuleDocumentation(main=main, submodules=submodules, examples=examples)
    if len(msgspec.json.encode(made)) > MAX_DOCUMENT_BYTES:
        note = "there is too much to describe: submodules and examples are left out"
        main = msgspec.structs.replace(main, problems=[*main.problems, note])
        made = ModuleDocumentation(main=main, submodules=[], examples=[])
    if len(msgspec.json.encode(made)) > MAX_DOCUMENT_BYTES:
        reading = _Reading()
        reading.problems.append(f"there is too much to describe: {len(main.inputs):,} inputs and all else are left out")
        made = ModuleDocumentation(main=reading.result("", ""), submodules=[], examples=[])
    return made


def _shortened(described: Sequence[Described], room: int) -> tuple[list[Described], int]:
    """Return folders without the READMEs for which there is no room, and the room that is left."""
    kept: list[Described] = []
    for each in described:
        is_too_long = len(each.readme) > room
        kept.append(msgspec.structs.replace(each, readme="") if is_too_long else each)
        room -= 0 if is_too_long else len(each.readme)
    return kept, room


def _is_wanted(path: str) -> bool:
    name = posixpath.basename(path)
    return _FOLDER.fullmatch(path) is not None and (name in _README or _is_configuration(name))


def _is_configuration(name: str) -> bool:
    return configurations.is_match(name, configurations.PATTERNS["tofu"])


def _folder(folder: str, files: Files) -> FolderDocumentation:
    reading = _Reading()
    for name, text in files.items():
        is_replaced = name.endswith((".tf", ".tf.json")) and name.replace(".tf", ".tofu") in files
        if _is_configuration(name) and not is_replaced and _OVERRIDE.search(name) is None:
            reading.file(name, text)
    return reading.result(folder, _readme(files))


def _example(folder: str, files: Files) -> DocumentedExample:
    texts = [text or "" for name, text in files.items() if _is_configuration(name)]
    main = files.get("main.tf") or files.get("main.tofu") or "\n".join(texts)
    name = folder.removeprefix("examples/")
    return DocumentedExample(name=name, readme=_readme(files), main=_cut(main.strip(), MAX_EXAMPLE_CHARACTERS))


def _readme(files: Files) -> str:
    found = next((text for name in _README if (text := files.get(name))), "")
    return _cut(found, MAX_README_CHARACTERS)


def _check_local(folder: FolderDocumentation) -> None:
    """Refuse a local module above the top: engines would look for it in a folder that is not there."""
    for each in folder.modules:
        local = each.source.startswith("../") or each.source == ".."
        if local and posixpath.normpath(posixpath.join(folder.folder, each.source)).startswith(".."):
            raise Invalid(
                f"its module {each.name} has the source {each.source!r}, which is not among the files that are published: publish "
                "the folder above, or that module by itself"
            )


class _Reading:
    """What is found in the files of one folder."""

    def __init__(self) -> None:
        self._inputs: list[DocumentedInput] = []
        self._outputs: list[DocumentedOutput] = []
        self._providers: dict[str, DocumentedRequirement] = {}
        self._modules: list[DocumentedRequirement] = []
        self._resources: list[str] = []
        self._engine_version = ""
        self.problems: list[str] = []

    def file(self, name: str, text: str | None) -> None:
        if text is None:
            self.problems.append(_cut(f"{name}: it is a link, or too large", 300))
            return
        try:
            for each in _blocks_of_json(text) if name.endswith(".json") else hcl_blocks.parse(text):
                self._block(each)
        except TerracrewError as error:
            self.problems.append(_cut(f"{name}: {error.message}", 300))

    def result(self, folder: str, readme: str) -> FolderDocumentation:
        return FolderDocumentation(
            folder=folder,
            readme=readme,
            inputs=sorted(self._inputs, key=lambda each: (each.default is not None, each.name))[:MAX_ITEMS],
            outputs=sorted(self._outputs, key=lambda each: each.name)[:MAX_ITEMS],
            providers=sorted(self._providers.values(), key=lambda each: each.name)[:MAX_ITEMS],
            modules=sorted(self._modules, key=lambda each: each.name)[:MAX_ITEMS],
            resources=sorted(self._resources)[:MAX_ITEMS],
            engine_version=self._engine_version,
            problems=self.problems[:MAX_FOLDERS],
        )

    def _block(self, block: HclBlock) -> None:
        match block.kind, block.labels:
            case "variable", (name,):
                self._inputs.append(_input(name, block))
            case "output", (name,):
                described = _text(block, "description")
                made = DocumentedOutput(
                    name=_cut(name), description=described, is_sensitive=_is_true(block, "sensitive")
                )
                self._outputs.append(made)
            case "module", (name,):
                self._modules.append(_requirement(name, block.attributes))
            case "resource", (kind, name):
                self._resources.append(_cut(f"{kind}.{name}"))
            case "terraform", ():
                self._terraform(block)
            case _:
                pass

    def _terraform(self, block: HclBlock) -> None:
        wanted = _text(block, "required_version")
        self._engine_version = ", ".join(filter(None, (self._engine_version, wanted)))
        for each in block.blocks:
            if each.kind == "required_providers":
                for name, expression in each.attributes.items():
                    self._providers[name] = _requirement(name, _members(expression))


def _input(name: str, block: HclBlock) -> DocumentedInput:
    is_sensitive = _is_true(block, "sensitive")
    default = block.attributes.get("default")
    if default is not None:
        default = "(sensitive)" if is_sensitive and default != "null" else _cut(_outdented(default))
    return DocumentedInput(
        name=_cut(name),
        type=_cut(_outdented(block.attributes.get("type", ""))),
        description=_text(block, "description"),
        default=default,
        is_sensitive=is_sensitive,
    )


def _outdented(expression: str) -> str:
    """Take the indentation of its block from an expression of several lines."""
    first, end, others = expression.partition("\n")
    return first + end + textwrap.dedent(others)


def _requirement(name: str, attributes: Mapping[str, str]) -> DocumentedRequirement:
    found = {key: hcl_blocks.literal(attributes.get(key, "")) or "" for key in ("source", "version")}
    return DocumentedRequirement(name=_cut(name), source=_cut(found["source"]), version=_cut(found["version"]))


def _members(expression: str) -> dict[str, str]:
    """Return the members of an object as it is written; a text alone is the version, as older configurations have it."""
    if not expression.startswith("{"):
        return {"version": expression}
    try:
        return hcl_blocks.members(expression)
    except TerracrewError:
        return {}


def _text(block: HclBlock, name: str) -> str:
    return _cut((hcl_blocks.literal(block.attributes.get(name, "")) or "").strip())


def _is_true(block: HclBlock, name: str) -> bool:
    return block.attributes.get(name) in ("true", '"true"')


def _cut(text: str, most: int = MAX_TEXT_CHARACTERS) -> str:
    clean = text.replace("\0", "")
    return clean if len(clean) <= most else clean[:most] + "…"


def _blocks_of_json(text: str) -> list[HclBlock]:
    """Return the blocks of a configuration in JSON."""
    try:
        document = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise Invalid(f"it is not JSON: {error}") from error
    found: list[HclBlock] = []
    for kind, levels in (("variable", 1), ("output", 1), ("module", 1), ("resource", 2), ("terraform", 0)):
        found += _json_blocks(kind, (), _listed(_object(document).get(kind)), levels)
    return found


def _json_blocks(kind: str, labels: tuple[str, ...], values: list[dict[str, Any]], levels: int) -> list[HclBlock]:
    if levels:
        below = [(name, value) for each in values for name, value in each.items() if name != "//"]
        return [made for name, it in below for made in _json_blocks(kind, (*labels, name), _listed(it), levels - 1)]
    return [_json_block(kind, labels, each) for each in values]


def _json_block(kind: str, labels: tuple[str, ...], value: dict[str, Any]) -> HclBlock:
    inner = [_json_block("required_providers", (), each) for each in _listed(value.get("required_providers"))]
    attributes = {name: _json_text(name, it, 0) for name, it in value.items()}
    return HclBlock(kind, labels, attributes, inner if kind == "terraform" else [])


def _json_text(name: str, value: Any, depth: int) -> str:
    """Return a value as HCL has it. Types are texts in JSON."""
    if depth > hcl_blocks.MAX_DEPTH:
        raise Invalid("its values are nested too deeply")
    if name == "type" and isinstance(value, str):
        return value
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        return "{ " + ", ".join(f"{key} = {_json_text('', each, depth + 1)}" for key, each in members.items()) + " }"
    if isinstance(value, list):
        items = cast("list[Any]", value)
        return "[" + ", ".join(_json_text("", each, depth + 1) for each in items) + "]"
    return msgspec.json.encode(value).decode()


def _listed(value: object) -> list[dict[str, Any]]:
    items = cast("list[object]", value) if isinstance(value, list) else [value]
    return [cast("dict[str, Any]", each) for each in items if isinstance(each, dict)]


def _object(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
