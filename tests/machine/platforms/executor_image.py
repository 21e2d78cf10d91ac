"""The image that tests run executors in: an interpreter, the packages of an executor, OpenTofu and a shell.

The interpreter is that of Debian, as in the image that people use (ADR 0054), if this machine has it in the version of the tests'
own. One that was built on this machine is often built without optimization, and loads an executor a fifth slower.

It is made without a network and without a base image, in seconds, from what the tests themselves run with. Another content
gives another tag, so the image always has the code that is tested.
"""

import functools
import glob
import hashlib
import importlib.metadata
import io
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, NamedTuple

import terracrew
from terracrew.toolchains import cache
from tests.machine import engines
from tests.machine.sqlite_template import memory

NAME = "terracrew-test/executor"
_SOURCES = Path(terracrew.__file__).parent
_PACKAGES = "opt/packages"
_DEBIAN_PYTHON = "/usr/bin/python3"
_SKIPPED_FOLDERS = {"__pycache__", "test", "tests", "idlelib", "tkinter", "turtledemo", "lib2to3", "site-packages"}
_LIBRARIES = ("libgcc_s.so.1", "libnss_files.so.2", "libnss_dns.so.2", "libresolv.so.2", "libstdc++.so.6")
_EXTRA_IS_WANTED = re.compile(r"extra\s*==")
_IMPORT_SECONDS = 300
_REMEMBER = 'RUN ["python3", "-m", "terracrew.executor.container", "remember"]\n'
_COMPILE = 'RUN ["python3", "-m", "compileall", "-q", "/%s"]\n'
"""The root of a container is read-only, so a module that is not compiled here is compiled at each start."""


class _Interpreter(NamedTuple):
    program: str
    library: str
    version: str


@functools.cache
def _interpreter() -> _Interpreter:
    own = _Interpreter(os.path.realpath(sys.executable), sysconfig.get_path("stdlib"), sys.version)
    ask = (
        "import os, sys, sysconfig; print(os.path.realpath(sys.executable), sysconfig.get_path('stdlib'), sys.version)"
    )
    try:
        said = subprocess.run([_DEBIAN_PYTHON, "-I", "-c", ask], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return own
    found = _Interpreter(*said.split(maxsplit=2))
    # The packages have extensions, which are made for one minor version.
    return found if found.version.split(".")[:2] == own.version.split(".")[:2] else own


def image(address: str, *, has_shell: bool = True) -> str:
    """Return the name of the image in the daemon at this address. Makes it if it is missing."""
    docker = ["docker", "--host", address]
    with cache.locked("platforms-executor-image", lambda: None):
        surroundings = f"{NAME}-surroundings:{_digest_of_surroundings()}{'' if has_shell else '-bare'}"
        if not _has(docker, surroundings):
            with tempfile.TemporaryFile(dir=memory()) as file:
                _Image(file).write(has_shell=has_shell)
                file.seek(0)
                change = f"ENV PATH=/usr/local/bin:/usr/bin PYTHONPATH=/{_PACKAGES} PYTHONDONTWRITEBYTECODE=1"
                _run([*docker, "import", "--change", change, "-", f"{surroundings}-plain"], file)
            with tempfile.TemporaryFile(dir=memory()) as file:
                compiled = "".join(_COMPILE % each for each in (_PACKAGES, _interpreter().library.lstrip("/")))
                _write_context(file, f"FROM {surroundings}-plain\n{compiled}", [])
                _run([*docker, "build", "--network", "host", "--quiet", "--tag", surroundings, "-"], file)
        tagged = f"{NAME}:{_digest(surroundings)}"
        if not _has(docker, tagged):
            with tempfile.TemporaryFile(dir=memory()) as file:
                code = f"{_PACKAGES}/terracrew"
                text = f"FROM {surroundings}\nCOPY terracrew /{code}\n{_COMPILE % code}{_REMEMBER}"
                _write_context(file, text, _below(_SOURCES))
                _run([*docker, "build", "--network", "host", "--quiet", "--tag", tagged, "-"], file)
    return tagged


def _has(docker: list[str], image: str) -> bool:
    return subprocess.run([*docker, "image", "inspect", image], capture_output=True, check=False).returncode == 0


def _run(command: list[str], file: IO[bytes]) -> None:
    env = {**os.environ, "DOCKER_BUILDKIT": "0"}
    done = subprocess.run(command, capture_output=True, stdin=file, timeout=_IMPORT_SECONDS, env=env, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command[3:5])} failed: {done.stderr.decode()[-2000:]}")


def _write_context(file: IO[bytes], text: str, paths: Iterable[Path]) -> None:
    """Write a build context with these files of the code that is tested."""
    dockerfile = text.encode()
    with tarfile.open(fileobj=file, mode="w") as tar:
        entry = tarfile.TarInfo("Dockerfile")
        entry.size = len(dockerfile)
        tar.addfile(entry, io.BytesIO(dockerfile))
        for path in paths:
            tar.add(path, f"terracrew/{path.relative_to(_SOURCES)}")
    file.seek(0)


def _digest(surroundings: str) -> str:
    text = surroundings
    for path in sorted(_below(_SOURCES)):
        text += f"\n{path.relative_to(_SOURCES)} {hashlib.sha256(path.read_bytes()).hexdigest()}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _digest_of_surroundings() -> str:
    text = f"{_interpreter()} {engines.tested_version('tofu').path}"
    for distribution in _distributions():
        text += f"\n{distribution.name} {distribution.version}"
    text += hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def files_of_extra(extra: str) -> dict[str, Path]:
    """Return the files that an extra of Terracrew adds to the packages of the image, by their paths in it."""
    common = {each.name for each in _distributions()}
    listed = [each for each in importlib.metadata.distribution("terracrew").requires or [] if f"'{extra}'" in each]
    wanted = [each for each in _needed(map(_name, listed)) if each.name not in common]
    return {f"{_PACKAGES}/{name}": path for each in wanted for name, path in _files(each)}


def _distributions() -> list[importlib.metadata.Distribution]:
    """Return what Terracrew needs without its extras."""
    return [each for each in _needed(["terracrew"]) if each.name != "terracrew"]


def _needed(names: Iterable[str]) -> list[importlib.metadata.Distribution]:
    """Return distributions and what they need without their extras."""
    found: dict[str, importlib.metadata.Distribution] = {}
    waiting = list(names)
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if name in found:
            continue
        try:
            found[name] = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue  # another system needs it
        wanted = [each for each in found[name].requires or [] if not _EXTRA_IS_WANTED.search(each)]
        waiting += map(_name, wanted)
    return [found[name] for name in sorted(found)]


def _name(requirement: str) -> str:
    return re.split(r"[^\w.-]", requirement, maxsplit=1)[0]


def _files(distribution: importlib.metadata.Distribution) -> Iterator[tuple[str, Path]]:
    for entry in distribution.files or []:
        path = Path(str(entry.locate()))
        if ".." not in entry.parts and path.suffix != ".pyc" and path.is_file():
            yield str(entry), path


class _Image:
    def __init__(self, file: IO[bytes]) -> None:
        self._tar = tarfile.open(fileobj=file, mode="w")  # noqa: SIM115  (`write` closes it)
        self._made: set[str] = set()
        self._programs: list[str] = []

    def write(self, *, has_shell: bool) -> None:
        with self._tar:
            for folder in ("usr/bin", "usr/lib", "usr/lib64", "etc", "proc", "sys", "dev", "run", "tmp", "terracrew"):
                self._folder(folder)
            for name in ("bin", "lib", "lib64"):
                self._link(name, f"usr/{name}")
            self._interpreter()
            self._packages()
            self._file(Path(engines.tested_version("tofu").path), "usr/local/bin/tofu")
            self._shared_libraries()
            if has_shell:
                self._shell()
            self._text("etc/passwd", "root:x:0:0::/:/bin/sh\nexecutor:x:10001:10001::/:\nengine:x:10002:10002::/:\n")
            self._text("etc/group", "root:x:0:\nexecutor:x:10001:\nengine:x:10002:\n")
            self._text("etc/nsswitch.conf", "hosts: files dns\n")

    def _interpreter(self) -> None:
        program = _interpreter().program
        self._program(Path(program))
        self._link("usr/local/bin/python3", program)
        for path in _below(Path(_interpreter().library)):
            self._program(path)

    def _packages(self) -> None:
        for distribution in _distributions():
            for name, path in _files(distribution):
                self._file(path, f"{_PACKAGES}/{name}")
                self._programs += [str(path)] if ".so" in path.name else []

    def _shared_libraries(self) -> None:
        found = {path for name in _LIBRARIES for path in glob.glob(f"/lib/*-linux-gnu/{name}")}
        for start in range(0, len(self._programs), 200):
            printed = subprocess.run(
                ["ldd", *self._programs[start : start + 200]], capture_output=True, text=True, check=False
            ).stdout
            for line in printed.splitlines():
                found |= {word for word in line.split() if word.startswith("/") and not word.endswith(":")}
        for path in sorted(found):
            name = os.path.normpath(path).lstrip("/")
            self._file(
                Path(path), name if name.startswith("usr/") else f"usr/{name}" if name.startswith("lib") else name
            )

    def _shell(self) -> None:
        self._file(Path(shutil.which("busybox") or "/bin/busybox"), "usr/bin/busybox")
        for name in ("sh", "cat", "echo", "sleep", "true", "env", "id", "ls", "nc", "touch"):
            self._link(f"usr/bin/{name}", "busybox")

    def _program(self, path: Path) -> None:
        self._file(path, str(path).lstrip("/"))
        if path.suffix == ".so" or os.access(path, os.X_OK):
            self._programs.append(str(path))

    def _folder(self, name: str) -> None:
        for part in (Path(name), *Path(name).parents):
            if (each := str(part)) not in (".", *self._made):
                self._made.add(each)
        entry = tarfile.TarInfo(name)
        entry.type, entry.mode = tarfile.DIRTYPE, 0o755
        self._tar.addfile(entry)

    def _file(self, path: Path, name: str) -> None:
        if name in self._made:
            return
        self._parents(name)
        self._made.add(name)
        entry = self._tar.gettarinfo(os.path.realpath(path), name)
        entry.uid = entry.gid = 0
        entry.mode |= 0o444
        with path.open("rb") as file:
            self._tar.addfile(entry, file)

    def _text(self, name: str, text: str) -> None:
        self._parents(name)
        entry = tarfile.TarInfo(name)
        entry.size = len(text.encode())
        self._tar.addfile(entry, io.BytesIO(text.encode()))

    def _link(self, name: str, target: str) -> None:
        self._parents(name)
        entry = tarfile.TarInfo(name)
        entry.type, entry.linkname = tarfile.SYMTYPE, target
        self._made.add(name)
        self._tar.addfile(entry)

    def _parents(self, name: str) -> None:
        for parent in reversed(Path(name).parents):
            if str(parent) not in (".", *self._made):
                self._folder(str(parent))


def _below(root: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(root):
        folders[:] = [each for each in folders if each not in _SKIPPED_FOLDERS and not each.startswith("config-")]
        yield from (Path(folder, name) for name in names if not name.endswith((".pyc", ".a")))
