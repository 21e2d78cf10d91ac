"""What unpacks archives, attacked with trees of links in both formats: nothing outside of the target changes."""

import contextlib
import io
import os
import stat
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from terracrew.errors import Invalid, TooLarge
from terracrew.executor.sources.registry import zip_files
from terracrew.source_rules import archive, unpacking
from tests.thoroughness import examples

pytestmark = pytest.mark.feature("J5.archive", "X4.isolation")


class Entry(NamedTuple):
    kind: Literal["file", "folder", "link", "hard link", "device"]
    name: str
    to: str = ""
    mode: int = 0o644


def tarred(entries: list[Entry]) -> bytes:
    kinds = {
        "folder": tarfile.DIRTYPE,
        "link": tarfile.SYMTYPE,
        "hard link": tarfile.LNKTYPE,
        "device": tarfile.CHRTYPE,
    }
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as out:
        for each in entries:
            info = tarfile.TarInfo(each.name)
            info.type, info.linkname, info.mode = kinds.get(each.kind, tarfile.REGTYPE), each.to, each.mode
            content = b"content" if each.kind == "file" else b""
            info.size = len(content)
            out.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def zipped(entries: list[Entry]) -> bytes:
    kinds = {"folder": stat.S_IFDIR, "link": stat.S_IFLNK, "device": stat.S_IFCHR}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as out:
        for each in entries:
            info = zipfile.ZipInfo(each.name)
            info.external_attr = (kinds.get(each.kind, stat.S_IFREG) | each.mode) << 16
            out.writestr(info, each.to or "content")
    return buffer.getvalue()


def unpack_tar(entries: list[Entry], target: Path) -> None:
    archive.extract(io.BytesIO(tarred(entries)), target)


def unpack_zip(entries: list[Entry], target: Path) -> None:
    zip_files.extract(zipped(entries), target)


both = pytest.mark.parametrize("unpack", [unpack_tar, unpack_zip])
Unpack = Callable[[list[Entry], Path], None]

_NAMES = st.one_of(
    st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=3).map("/".join),
    st.sampled_from([".", "./a", "b/", "c//a", "../outside/evil", "/evil"]),
)
_TARGETS = st.one_of(
    st.lists(st.sampled_from(["a", "b", "c", ".", "..", "outside"]), min_size=1, max_size=7).map("/".join),
    st.sampled_from(["/", "/tmp", "", "a\0b"]),
)
_KINDS = st.sampled_from(["file", "folder", "link", "link", "link", "hard link", "device"])
_ENTRIES = st.lists(st.builds(Entry, _KINDS, _NAMES, _TARGETS, st.sampled_from([0o644, 0o4755, 0o2777])), max_size=8)
_MEANING_CHANGES = [
    Entry("file", "evil"),
    Entry("link", "a", "c/c/../../outside"),
    Entry("link", "c", "."),
    Entry("link", "a/.gitconfig", "../inner/target/evil"),
    Entry("link", "a/made/by/x", "../../../inner/target/evil"),
]
"""The first link stays inside by its text. The second one makes it lead out, and the others would be made through it."""


def described(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Everything below a folder but the target: modes and contents."""
    found: dict[str, tuple[int, bytes]] = {}
    for place, folders, names in os.walk(folder):
        if "target" in folders:
            folders.remove("target")
        for name in (*folders, *names):
            path = Path(place, name)
            content = os.readlink(path).encode() if path.is_symlink() else b"" if path.is_dir() else path.read_bytes()
            found[str(path)] = path.lstat().st_mode, content
    return found


@both
@pytest.mark.filterwarnings("ignore:Duplicate name")
@settings(max_examples=examples(600), deadline=None)
@given(entries=_ENTRIES)
@example(entries=_MEANING_CHANGES)
@example(entries=[Entry("link", "a", "../../outside"), Entry("file", "a/evil")])
def test_no_tree_of_links_changes_or_reaches_anything_outside(unpack: Unpack, entries: list[Entry]) -> None:
    """A zip archive made a link in the home directory of the runner's user: what an earlier link meant changed with a later one."""
    with tempfile.TemporaryDirectory() as made:
        root = Path(made)
        target, outside = root / "inner" / "target", root / "outside"
        for folder in (target, outside, root / "inner" / "outside"):
            folder.mkdir(parents=True)
        (outside / "file").write_text("not of the archive")
        before = described(root)
        try:
            unpack(entries, target)
        except Invalid:
            pass
        else:
            for place, folders, names in os.walk(target):
                for path in (Path(place, name) for name in (*folders, *names)):
                    assert path.resolve().is_relative_to(target.resolve()), f"{path} -> {os.readlink(path)}"
                    assert not path.lstat().st_mode & (stat.S_ISUID | stat.S_ISGID)
        assert described(root) == before


@settings(max_examples=examples(600), deadline=None)
@given(entries=_ENTRIES)
@example(entries=_MEANING_CHANGES)
def test_links_of_a_workspace_may_lead_out_but_nothing_is_made_through_them(entries: list[Entry]) -> None:
    """A saved plan has links to the packages of the shared cache, so its links are not walked."""
    with tempfile.TemporaryDirectory() as made:
        root = Path(made)
        target = root / "inner" / "target"
        for folder in (target, root / "outside", root / "inner" / "outside"):
            folder.mkdir(parents=True)
        before = described(root)
        with (
            contextlib.suppress(Invalid),
            unpacking.Unpacking(target, max_entries=100, max_bytes=1000, is_source=False) as workspace,
        ):
            for each in entries:
                if each.kind == "link":
                    workspace.link(each.name, each.to)
                elif each.kind == "folder":
                    workspace.folder(each.name, each.mode | 0o700)
                else:
                    workspace.file(each.name, io.BytesIO(b"content"), each.mode)
            workspace.finish()
        assert described(root) == before
        assert not any(path.lstat().st_mode & (stat.S_ISUID | stat.S_ISGID) for path in target.rglob("*"))


@both
def test_an_ordinary_tree_arrives(unpack: Unpack, tmp_path: Path) -> None:
    unpack(
        [
            Entry("link", "modules/b", "../shared/./x"),
            Entry("file", "shared/x/main.tf"),
            Entry("file", "./run.sh", mode=0o755),
            Entry("folder", "empty/", mode=0o755),
            Entry("link", "top", "modules/b/main.tf"),
        ],
        tmp_path,
    )
    assert (tmp_path / "top").read_text() == "content"
    assert (tmp_path / "empty").is_dir()
    assert os.access(tmp_path / "run.sh", os.X_OK)
    assert not os.access(tmp_path / "shared/x/main.tf", os.X_OK)


@both
@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ([Entry("link", "a", "b"), Entry("file", "a/c")], "below 'a', which is not a directory"),
        ([Entry("file", "a/c"), Entry("link", "a", "b")], "'a' twice"),
        ([Entry("link", "a", "x" * 5000)], "longer than a path can be"),
        ([Entry("file", "x" * 256)], "a name of more than 255 bytes"),
        ([Entry("file", "d/" * 2500 + "x")], "a path of 5,001 characters"),
        ([Entry("file", "d/" * 257 + "x")], "below more than 256 folders"),
        ([Entry("file", ".")], "not the path of a file"),
    ],
)
def test_what_is_refused_is_named(unpack: Unpack, tmp_path: Path, entries: list[Entry], words: str) -> None:
    with pytest.raises(Invalid, match=words):
        unpack(entries, tmp_path)
    assert not any(path.is_symlink() for path in tmp_path.rglob("*"))


@both
def test_folders_that_no_entry_names_count_as_entries(
    unpack: Unpack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One path of a megabyte had half a million folders, and each was kept with its whole path."""
    monkeypatch.setattr(archive, "MAX_ENTRIES", 10)
    with pytest.raises(TooLarge, match="more than 10 entries"):
        unpack([Entry("file", "d/" * 20 + "x")], tmp_path)


@both
def test_links_that_take_too_long_to_follow_are_refused(
    unpack: Unpack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unpacking, "MAX_STEPS", 100)
    with pytest.raises(TooLarge, match="too many links"):
        unpack([Entry("folder", "d"), Entry("link", "a", "d/../" * 60 + "d")], tmp_path)
    assert os.listdir(tmp_path) == ["d"]


def test_a_step_of_a_link_costs_the_same_however_deep_it_is() -> None:
    """An upload of 28 KB took 27 s: its steps were counted, and each put the path of its place together anew."""

    def seconds(to: str) -> float:
        """Return the processor time of checking 200 links to this target; the best of three."""
        found: list[float] = []
        for _ in range(3):
            with unpacking.Unpacking(None, max_entries=1000, max_bytes=1000) as entries:
                for at in range(200):
                    entries.link(str(at), to)
                since = time.process_time()
                entries.finish()
                found.append(time.process_time() - since)
        return min(found)

    flat, deep = "z/../" * 700 + "z", "z/" * 1000 + "z/../" * 200 + "z"
    assert flat.count("/") == deep.count("/"), "as many steps"
    assert seconds(deep) < 4 * seconds(flat)


def test_nothing_that_is_there_already_is_written_to_or_followed(tmp_path: Path) -> None:
    """The target should be empty. If it is not, what is in it is not used as a way out either."""
    target, outside = tmp_path / "target", tmp_path / "outside"
    target.mkdir()
    outside.mkdir()
    (target / "way").symlink_to(outside)
    (target / "file").symlink_to(outside / "file")
    for entry in (Entry("file", "way/x"), Entry("folder", "way"), Entry("file", "file"), Entry("link", "way/x", "y")):
        with pytest.raises(Invalid, match="something else in its place"):
            unpack_tar([entry], target)
    assert not os.listdir(outside)


def test_a_zip_is_read_only_in_ways_that_need_little_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_LZMA) as out:
        out.writestr("main.tf", "content")
    with pytest.raises(Invalid, match="packed in another way than by deflate"):
        zip_files.extract(buffer.getvalue(), tmp_path)
    monkeypatch.setattr(archive, "MAX_ENTRIES", 10)
    with pytest.raises(TooLarge, match="more than 10 entries"):
        zip_files.extract(zipped([Entry("file", str(at)) for at in range(11)]), tmp_path)
