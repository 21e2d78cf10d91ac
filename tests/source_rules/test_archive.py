"""Source archives: the same bytes for the same folder, and nothing in them harms the process that unpacks them."""

import gzip
import hashlib
import io
import os
import tarfile
from pathlib import Path

import pytest

from terracrew.errors import Invalid, TooLarge
from terracrew.source_rules import archive


def tar(*entries: tarfile.TarInfo | tuple[str, bytes]) -> io.BytesIO:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as out:
        for entry in entries:
            if isinstance(entry, tarfile.TarInfo):
                out.addfile(entry)
            else:
                info = tarfile.TarInfo(entry[0])
                info.size = len(entry[1])
                out.addfile(info, io.BytesIO(entry[1]))
    return io.BytesIO(buffer.getvalue())


def link(name: str, to: str, kind: bytes = tarfile.SYMTYPE) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, to
    return info


def special(name: str, kind: bytes) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type = kind
    return info


@pytest.mark.feature("J5.once")
def test_a_folder_packs_to_the_same_bytes_and_comes_back_the_same(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    (folder / "modules" / "a").mkdir(parents=True)
    (folder / "main.tf").write_text("# main")
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    (folder / "modules" / "a" / "main.tf").write_text("# a")
    (folder / "modules" / "b").symlink_to("a")
    (folder / "empty").mkdir()
    first = archive.pack(folder)
    os.utime(folder / "main.tf", (0, 0))
    assert archive.pack(folder) == first
    target = tmp_path / "target"
    target.mkdir()
    contents = archive.extract(io.BytesIO(first), target)
    assert contents == archive.inspect(io.BytesIO(first))
    assert (target / "modules" / "b" / "main.tf").read_text() == "# a"
    assert os.access(target / "run.sh", os.X_OK)
    assert not os.access(target / "main.tf", os.X_OK)
    assert (target / "empty").is_dir()


@pytest.mark.feature("J5.archive")
def test_what_is_ignored_stays_out(tmp_path: Path) -> None:
    (tmp_path / ".terraform" / "x").mkdir(parents=True)
    (tmp_path / ".git").mkdir()
    for name in ("terraform.tfstate", "terraform.tfstate.backup", ".terraform.lock.hcl", "main.tf", "notes.md"):
        (tmp_path / name).write_text("x")
    (tmp_path / "build" / "deep").mkdir(parents=True)
    (tmp_path / "deep").mkdir()
    (tmp_path / archive.IGNORE_FILE).write_text("# comment\n*.md\n/build/deep/\n")
    with tarfile.open(fileobj=io.BytesIO(archive.pack(tmp_path))) as packed:
        assert packed.getnames() == [archive.IGNORE_FILE, ".terraform.lock.hcl", "build", "deep", "main.tf"]


@pytest.mark.feature("J5.archive")
@pytest.mark.parametrize(
    ("patterns", "kept"),
    [
        ("", ["docs/a.md", "docs/deep/b.md", "main.tf", "modules/a/main.tf", "modules/a/test/x.tf"]),
        ("**/test\n", ["docs/a.md", "docs/deep/b.md", "main.tf", "modules/a/main.tf"]),
        ("docs/*.md\n", ["docs/deep/b.md", "main.tf", "modules/a/main.tf", "modules/a/test/x.tf"]),
        ("*.md\n!docs/a.md\n", ["docs/a.md", "main.tf", "modules/a/main.tf", "modules/a/test/x.tf"]),
        ("docs/**\n!docs/a.md\nmodules/**/x.tf\n", ["docs/a.md", "main.tf", "modules/a/main.tf"]),
        ("*\n!*/\n!*.tf\n", ["main.tf", "modules/a/main.tf", "modules/a/test/x.tf"]),
        ("modules/\n!modules/a/main.tf\nmain.tf/\n", ["docs/a.md", "docs/deep/b.md", "main.tf"]),
        ("!*.tfstate\n!.terraform/\n*.md\n", ["main.tf", "modules/a/main.tf", "modules/a/test/x.tf"]),
    ],
)
def test_an_ignore_file_is_read_as_git_reads_its_own(tmp_path: Path, patterns: str, kept: list[str]) -> None:
    """`!` and `**` were taken for characters of a name."""
    for name in ("docs/a.md", "docs/deep/b.md", "main.tf", "modules/a/main.tf", "modules/a/test/x.tf"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    (tmp_path / ".terraform").mkdir()
    (tmp_path / ".terraform" / "secret.tf").write_text("x")
    (tmp_path / "old.tfstate").write_text("x")
    (tmp_path / archive.IGNORE_FILE).write_text(patterns)
    with tarfile.open(fileobj=io.BytesIO(archive.pack(tmp_path))) as packed:
        files = [entry.name for entry in packed.getmembers() if entry.isfile()]
    assert sorted(set(files) - {archive.IGNORE_FILE}) == kept


def test_a_pattern_that_means_nothing_is_refused_with_the_name_of_the_file(tmp_path: Path) -> None:
    (tmp_path / archive.IGNORE_FILE).write_text("[z-a]\n")
    with pytest.raises(Invalid, match=r"\.terracrewignore is not a list of patterns"):
        archive.pack(tmp_path)


@pytest.mark.feature("X4.bounded")
def test_an_ignore_file_of_any_size_is_not_read_to_its_end(tmp_path: Path) -> None:
    with open(tmp_path / archive.IGNORE_FILE, "wb") as file:
        file.truncate(1 << 40)  # with a hole, which takes no space on the disk
    with pytest.raises(TooLarge, match=r"\.terracrewignore has more than 262,144 bytes"):
        archive.Ignore(tmp_path)


@pytest.mark.feature("J5.once")
def test_the_packed_form_of_a_folder_is_the_same_in_every_version(tmp_path: Path) -> None:
    """A source is known by its hash: with another form, each would count as changed after an update."""
    (tmp_path / "modules").mkdir()
    (tmp_path / "main.tf").write_text("# main")
    (tmp_path / "modules" / "run.sh").write_text("#!/bin/sh\n")
    (tmp_path / "modules" / "run.sh").chmod(0o755)
    (tmp_path / "link").symlink_to("modules")
    (tmp_path / archive.IGNORE_FILE).write_text("*.md\n")
    unpacked = gzip.decompress(archive.pack(tmp_path))
    assert hashlib.sha256(unpacked).hexdigest() == "ddb968bdc28bb20bf7d7375231d47658ea72c52c6bcdd6083a93aad032810bb3"


@pytest.mark.feature("J5.archive", "X4.isolation")
@pytest.mark.parametrize(
    "evil",
    [
        tar(("../out", b"x")),
        tar(("a/../../out", b"x")),
        tar(("/etc/out", b"x")),
        tar(("a\\..\\out", b"x")),
        tar(link("out", "/etc/passwd")),
        tar(link("out", "../secret")),
        tar(link("a/out", "../../secret")),
        tar(link("here", "."), link("out", "here/../..")),
        tar(link("a", "b/.."), link("b", "c/.."), link("c", "..")),
        tar(link("a", "b"), link("b", "a")),
        tar(link("dir", "elsewhere"), ("dir/file", b"x")),
        tar(("file", b"x"), ("file/below", b"x")),
        tar(("file", b"x"), ("file", b"y")),
        tar(("a/b", b"x"), link("a", "c")),
        tar(link("hard", "/etc/passwd", tarfile.LNKTYPE)),
        tar(special("device", tarfile.BLKTYPE)),
        tar(special("device", tarfile.CHRTYPE)),
        tar(special("pipe", tarfile.FIFOTYPE)),
        io.BytesIO(b"no archive at all"),
        io.BytesIO(b""),
        io.BytesIO(gzip.compress(b"no tar inside" * 100)),
        io.BytesIO(tar(("a", b"x" * 5000)).getvalue()[:-200]),
    ],
)
def test_an_evil_archive_is_refused_and_nothing_of_it_leaves_the_folder(tmp_path: Path, evil: io.BytesIO) -> None:
    target = tmp_path / "target"
    target.mkdir()
    with pytest.raises(Invalid):
        archive.inspect(evil)
    evil.seek(0)
    with pytest.raises(Invalid):
        archive.extract(evil, target)
    assert os.listdir(tmp_path) == ["target"]
    assert not any(path.is_symlink() for path in target.rglob("*"))


def test_links_inside_are_kept_even_before_what_they_point_to(tmp_path: Path) -> None:
    good = tar(link("modules/b", "../shared/./x"), ("shared/x/main.tf", b"x"), link("top", "modules/b/main.tf"))
    archive.extract(good, tmp_path)
    assert (tmp_path / "top").read_text() == "x"


@pytest.mark.feature("J5.archive", "X4.bounded")
def test_bombs_are_refused_before_they_unfold(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TooLarge, match="bomb"):
        archive.inspect(tar(("zeros", bytes(64 << 20))))
    monkeypatch.setattr(archive, "MAX_BYTES", 1 << 20)
    with pytest.raises(TooLarge, match="more than 1 MiB"):
        archive.inspect(tar(("noise", os.urandom(2 << 20))))
    monkeypatch.setattr(archive, "MAX_ENTRIES", 10)
    with pytest.raises(TooLarge, match="more than 10 entries"):
        archive.inspect(tar(*((str(at), b"") for at in range(11))))


@pytest.mark.feature("J5.archive", "X4.bounded")
def test_an_endless_header_does_not_end_in_memory() -> None:
    info = tarfile.TarInfo("x")
    info.pax_headers = {"comment": "y" * (8 << 20)}
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", format=tarfile.PAX_FORMAT) as out:
        out.addfile(info)
    buffer.seek(0)
    with pytest.raises(TooLarge, match="whose header is too large"):
        archive.inspect(buffer)
