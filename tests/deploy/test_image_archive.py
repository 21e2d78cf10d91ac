"""scripts/image_archive.py: two builds of the same files have the same image, and another file makes another image."""

import gzip
import hashlib
import io
import json
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.containers import ROOT

EPOCH = 1_700_000_000
SOURCE_OF_DEBIAN = "usr/lib/python3.11/json/decoder.py"
FILES = {"usr/bin/tool": b"\x7fELF", "usr/lib/long/" + "x" * 120: b"text\n"}


def layer(files: dict[str, bytes], when: float) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=tarfile.PAX_FORMAT) as tar:
        link = tarfile.TarInfo("usr/bin/other")
        link.type, link.linkname, link.mtime = tarfile.SYMTYPE, "tool", when
        tar.addfile(link)
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mtime, member.mode, member.uid = len(text), when, 0o4755, 10001
            member.pax_headers = {"SCHILY.xattr.security.capability": "kept"}
            tar.addfile(member, io.BytesIO(text))
    return content.getvalue()


def saved(place: Path, layers: list[bytes], host: str, when: str) -> Path:
    """Write what `docker save` writes for an image that was built on this host at this time."""
    config: dict[str, Any] = {
        "architecture": "amd64",
        "container": host * 4,
        "container_config": {"Hostname": host},
        "config": {"Hostname": host, "Image": f"sha256:{host}", "User": "10001:10001", "Labels": {"a": "b"}},
        "created": when,
        "history": [{"created": when, "created_by": f"COPY dir:{host * 16} in /opt"}],
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(each).hexdigest()}" for each in layers]},
    }
    names = [f"{host}{number}/layer.tar" for number in range(len(layers))]
    manifest = [{"Config": f"{host}.json", "RepoTags": ["terracrew-runner:1"], "Layers": names}]
    parts = {f"{host}.json": json.dumps(config).encode(), **dict(zip(names, layers, strict=True))}
    with tarfile.open(place / f"{host}.tar", "w") as tar:
        for name, content in {**parts, "manifest.json": json.dumps(manifest).encode()}.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return place / f"{host}.tar"


def rewritten(archive: Path) -> tuple[str, Path]:
    made = archive.with_suffix(".fixed")
    code = "import sys, pathlib as p, image_archive as i; print(i.rewrite(p.Path(sys.argv[1]), p.Path(sys.argv[2]), int(sys.argv[3])))"
    command = [sys.executable, "-c", code, str(archive), str(made), str(EPOCH)]
    said = subprocess.run(command, cwd=ROOT / "scripts", capture_output=True, text=True, check=True, timeout=60).stdout
    return said.strip(), made


def test_two_builds_of_the_same_files_have_the_same_bytes(tmp_path: Path) -> None:
    base = layer({"etc/old": b"1"}, EPOCH - 5000)
    first = saved(tmp_path, [base, layer(FILES, EPOCH + 10.25)], "aaaa", "2026-01-01T00:00:00Z")
    second = saved(tmp_path, [base, layer(FILES, EPOCH + 99_999)], "bbbb", "2026-02-02T00:00:00Z")
    (one, made), (two, again) = rewritten(first), rewritten(second)
    assert one == two
    assert made.read_bytes() == again.read_bytes()
    other = saved(tmp_path, [base, layer({**FILES, "usr/bin/tool": b"else"}, EPOCH)], "cccc", "2026-01-01T00:00:00Z")
    assert rewritten(other)[0] != one


def test_nothing_but_times_changes_in_the_files(tmp_path: Path) -> None:
    digest, made = rewritten(saved(tmp_path, [layer(FILES, EPOCH + 10.25)], "aaaa", "2026-01-01T00:00:00Z"))
    with tarfile.open(made) as archive:
        (image,) = json.loads(archive.extractfile("manifest.json").read())  # pyright: ignore[reportOptionalMemberAccess]
        text = archive.extractfile(image["Config"]).read()  # pyright: ignore[reportOptionalMemberAccess]
        content = archive.extractfile(image["Layers"][0]).read()  # pyright: ignore[reportOptionalMemberAccess]
    assert image["RepoTags"] == ["terracrew-runner:1"]
    assert digest == f"sha256:{hashlib.sha256(text).hexdigest()}"
    config = json.loads(text)
    assert config["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(content).hexdigest()}"]
    assert config["config"] == {"User": "10001:10001", "Labels": {"a": "b"}}
    assert (config["created"], config["architecture"]) == ("2023-11-14T22:13:20Z", "amd64")
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        found = {member.name: member for member in tar}
        assert {name: tar.extractfile(name).read() for name in FILES} == FILES  # pyright: ignore[reportOptionalMemberAccess]
    tool, link = found["usr/bin/tool"], found["usr/bin/other"]
    assert (tool.mtime, tool.mode, tool.uid) == (EPOCH, 0o4755, 10001)
    assert tool.pax_headers["SCHILY.xattr.security.capability"] == "kept"
    assert (link.linkname, link.mtime) == ("tool", EPOCH)


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_a_layer_of_the_base_keeps_its_bytes(tmp_path: Path, compress: Callable[[bytes], bytes]) -> None:
    """Images share it then. Compiled modules of Debian also name the times of their sources, so these must not move."""
    base = layer(FILES, EPOCH - 0.5)
    _, made = rewritten(saved(tmp_path, [compress(base), layer(FILES, EPOCH + 1)], "aaaa", "2026-01-01T00:00:00Z"))
    with tarfile.open(made) as archive:
        assert hashlib.sha256(base).hexdigest() + ".tar" in archive.getnames()


def test_a_source_of_a_package_that_is_newer_than_the_commit_keeps_its_time(tmp_path: Path) -> None:
    """Python compiled a third of its modules at each start of an executor: their sources had other times than the compiled files name."""
    files = {SOURCE_OF_DEBIAN: b"import re", "usr/lib/python3.11/json/__pycache__/decoder.cpython-311.pyc": b"code"}
    _, made = rewritten(saved(tmp_path, [layer(files, EPOCH + 50)], "aaaa", "2026-01-01T00:00:00Z"))
    with tarfile.open(made) as archive:
        (image,) = json.loads(archive.extractfile("manifest.json").read())  # pyright: ignore[reportOptionalMemberAccess]
        with tarfile.open(fileobj=archive.extractfile(image["Layers"][0])) as tar:
            assert {member.name for member in tar if member.mtime > EPOCH} == {SOURCE_OF_DEBIAN}
