"""The code of all modules that an executor loads, in one file of its image: finding and reading 400 files takes an eighth of its start.

While an image is built, `remember` writes the file. A module is taken from it if its source has the size and the time of change that
it had then, which is what Python itself checks before it uses a compiled file. Everything else is imported as usual.

This module imports little, because what it imports cannot come from the file.
"""

import marshal
import mmap
import os
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import MAGIC_NUMBER, spec_from_file_location
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import CodeType, ModuleType

FILE = "/usr/share/terracrew/executor-code"
_HEAD_BYTES = 8
"""The file begins with the length of its list of modules. The list follows, and then the code of one module after the other."""

_Entry = tuple[str, bool, int, int, int, int]
"""The source of a module, whether it is a package, the source's size and time, and where the code of the module begins and ends."""


class _Loader(SourceFileLoader):
    def __init__(self, fullname: str, path: str, code: memoryview) -> None:
        super().__init__(fullname, path)
        self._code = code

    def get_code(self, fullname: str) -> "CodeType | None":  # noqa: ARG002  (the name of the only module that it loads)
        return marshal.loads(self._code)  # noqa: S302  (the image has this code as modules, too)


class _Finder:
    def __init__(self, modules: dict[str, _Entry], code: memoryview) -> None:
        self._modules, self._code = modules, code

    def find_spec(
        self, fullname: str, _path: "Sequence[str] | None" = None, _target: "ModuleType | None" = None, /
    ) -> "ModuleSpec | None":
        if (entry := self._modules.get(fullname)) is None:
            return None
        source, is_package, size, changed_at, begin, end = entry
        if _size_and_time(source) != (size, changed_at):
            return None
        return spec_from_file_location(
            fullname,
            source,
            loader=_Loader(fullname, source, self._code[begin:end]),
            submodule_search_locations=[os.path.dirname(source)] if is_package else None,
        )


def use(file: str = FILE) -> None:
    """Import modules from the file from now on, unless another Python wrote it, or one that searched modules in other places."""
    try:
        with open(file, "rb") as opened:
            content = memoryview(mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ))
        end = _HEAD_BYTES + int.from_bytes(content[:_HEAD_BYTES])
        origin, modules = marshal.loads(content[_HEAD_BYTES:end])  # noqa: S302  (see above)
    except (OSError, ValueError, EOFError, TypeError):  # there is no file, or it is damaged
        return
    if origin == _origin():
        sys.meta_path.insert(0, _Finder(modules, content[end:]))


def write(file: str = FILE) -> None:
    """Write the code of all modules that this process has loaded from sources."""
    modules, codes, length = dict[str, _Entry](), list[bytes](), 0
    for name, module in sorted(sys.modules.items()):
        spec = getattr(module, "__spec__", None)
        loader = getattr(spec, "loader", None)
        if spec is None or spec.name != name or not isinstance(loader, SourceFileLoader):
            continue
        found = _size_and_time(loader.path)
        code = loader.get_code(name)
        if found is None or code is None:
            continue
        codes.append(marshal.dumps(code))
        end = length + len(codes[-1])
        modules[name] = (loader.path, spec.submodule_search_locations is not None, *found, length, end)
        length = end
    # Newer formats note which objects other code refers to at the moment, so that two builds of an image would differ.
    head = marshal.dumps((_origin(), modules), 0)
    os.makedirs(os.path.dirname(file), exist_ok=True)
    with open(f"{file}.new", "wb") as opened:
        opened.write(b"".join((len(head).to_bytes(_HEAD_BYTES), head, *codes)))
    os.replace(f"{file}.new", file)  # this process may use the file that was there


def _size_and_time(source: str) -> tuple[int, int] | None:
    """Return both as they are after an image has been stored, which keeps whole seconds."""
    try:
        found = os.stat(source)
    except OSError:
        return None
    return found.st_size, int(found.st_mtime)


def _origin() -> tuple[bytes, list[str]]:
    """Return what else decides which code a module has: the version of Python, and where modules are searched."""
    return MAGIC_NUMBER, sys.path if sys.flags.safe_path else sys.path[1:]  # without the current directory
