"""What `init` made is used again only if it is exactly what this runner kept, and never takes more than its share of the disk."""

import contextlib
import os
import signal
import threading
import time
from pathlib import Path

import msgspec
import pytest

from terracrew.executor.engines.contract import InitFile
from terracrew.executor.steps import warm_workspace as caches
from terracrew.executor.steps.warm_workspace import KeptInit, WarmCache
from terracrew.protocol.start import WarmSettings
from terracrew.system import trees

SECRET = b"s" * 32


@pytest.fixture
def settings(tmp_path: Path) -> WarmSettings:
    return WarmSettings(str(tmp_path / "warm"), SECRET, 1 << 20, 3600.0)


@pytest.fixture
def cache(settings: WarmSettings) -> WarmCache:
    return WarmCache(settings)


def entry(content: bytes = b"{}", *, number: int = 7, age_seconds: float = 0.0) -> KeptInit:
    return KeptInit(number, time.time() - age_seconds, [InitFile(".terraform/modules/modules.json", content)])


def used(file: Path, seconds: float) -> None:
    """Make it look as if the file was used this long ago."""
    then = time.time() - seconds
    os.utime(file, (then, then))


def only_file(settings: WarmSettings) -> Path:
    [file] = Path(settings.directory).iterdir()
    return file


def test_an_entry_comes_back_as_it_was_kept(cache: WarmCache, settings: WarmSettings) -> None:
    kept = entry(b"\x00\xff" * 1000)
    assert cache.put("one", kept)
    assert cache.get("one") == kept
    assert cache.get("other") is None
    assert only_file(settings).stat().st_mode & 0o777 == 0o400
    assert Path(settings.directory).stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("position", [0, 31, 32, 40, -1])
def test_an_entry_that_was_changed_is_not_used(cache: WarmCache, settings: WarmSettings, position: int) -> None:
    cache.put("one", entry())
    file = only_file(settings)
    file.chmod(0o600)
    data = bytearray(file.read_bytes())
    data[position] ^= 1
    file.write_bytes(bytes(data))
    assert cache.get("one") is None
    assert not file.exists()


@pytest.mark.parametrize("size", [0, 10, 32, 50])
def test_an_entry_that_was_cut_short_is_not_used(cache: WarmCache, settings: WarmSettings, size: int) -> None:
    cache.put("one", entry())
    file = only_file(settings)
    file.chmod(0o600)
    os.truncate(file, size)
    assert cache.get("one") is None


def test_an_entry_that_another_process_signed_is_not_used(cache: WarmCache, settings: WarmSettings) -> None:
    WarmCache(msgspec.structs.replace(settings, secret=b"t" * 32)).put("one", entry())
    assert cache.get("one") is None


def test_an_entry_is_not_used_under_the_name_of_another_one(cache: WarmCache, settings: WarmSettings) -> None:
    cache.put("mine", entry())
    only_file(settings).rename(Path(settings.directory) / "yours")
    assert cache.get("yours") is None


def test_anything_but_a_file_in_the_place_of_an_entry_is_not_used(cache: WarmCache, settings: WarmSettings) -> None:
    """A pipe would hold the next job for ever, and a file without an end would take all of its memory."""
    folder = Path(settings.directory)
    folder.mkdir()
    os.mkfifo(folder / "pipe")
    (folder / "large").touch()
    os.truncate(folder / "large", 1 << 40)
    assert cache.get("pipe") is None
    assert cache.get("large") is None
    (folder / "one").symlink_to("/etc/passwd")
    (folder / "two").mkdir()
    assert cache.get("one") is None
    assert cache.get("two") is None


def test_the_name_depends_on_every_part_and_on_where_a_part_ends(cache: WarmCache, settings: WarmSettings) -> None:
    names = [cache.name_of(parts) for parts in (["ab", "c"], ["a", "bc"], ["abc"], [b"ab", "c", ""], ["ab", "d"])]
    assert len(set(names)) == 5
    assert cache.name_of(["ab", b"c"]) == names[0]
    assert WarmCache(msgspec.structs.replace(settings, secret=b"t")).name_of(["ab", "c"]) != names[0]


def test_an_old_entry_is_not_used(cache: WarmCache) -> None:
    cache.put("old", entry(age_seconds=3601))
    cache.put("from the future", entry(age_seconds=-3601))
    assert cache.get("old") is None
    assert cache.get("from the future") is None


def test_the_least_recently_used_entries_give_way_to_a_new_one(cache: WarmCache, settings: WarmSettings) -> None:
    for number, name in enumerate(("first", "second", "third")):
        cache.put(name, entry(b"x" * 300_000))
        used(Path(settings.directory) / name, 100 - number)
    assert cache.get("first") is not None  # it counts as used just now
    cache.put("fourth", entry(b"x" * 300_000))
    assert {file.name for file in Path(settings.directory).iterdir()} == {"first", "third", "fourth"}


def test_what_is_larger_than_the_cache_is_not_kept(cache: WarmCache) -> None:
    cache.put("small", entry())
    assert not cache.put("large", entry(b"x" * (1 << 20)))
    assert cache.get("small") is not None


def test_a_draft_of_a_process_that_died_is_removed_later(cache: WarmCache, settings: WarmSettings) -> None:
    cache.put("one", entry())
    old, new = Path(settings.directory) / ".old", Path(settings.directory) / ".new"
    for draft in (old, new):
        draft.write_bytes(b"half")
    used(old, trees.MAX_DRAFT_SECONDS + 1)
    cache.put("two", entry())
    assert not old.exists()
    assert new.exists()


def test_an_almost_full_disk_loses_the_whole_cache(
    cache: WarmCache, settings: WarmSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.put("one", entry())
    monkeypatch.setattr(caches, "MIN_FREE_BYTES", 1 << 60)
    monkeypatch.setattr(caches, "MIN_FREE_RATIO", 1.0)
    assert not cache.put("two", entry())
    assert not list(Path(settings.directory).iterdir())


def test_entries_can_be_removed_and_replaced_while_they_are_read(cache: WarmCache) -> None:
    kept = [entry(bytes([number]) * 200_000, number=number + 1) for number in range(2)]
    ended = threading.Event()

    def change() -> None:
        for round_ in range(200):
            cache.put("one", kept[round_ % 2])
            if round_ % 5 == 0:
                cache.clear()
        ended.set()

    thread = threading.Thread(target=change)
    thread.start()
    seen = set[int]()
    while not ended.is_set():
        found = cache.get("one")
        assert found is None or found in kept
        seen.add(found.number if found else 0)
    thread.join()
    assert seen & {1, 2}


def test_a_process_that_is_killed_while_it_keeps_something_leaves_nothing_half_usable(
    cache: WarmCache, settings: WarmSettings
) -> None:
    large = msgspec.structs.replace(settings, max_bytes=1 << 30)
    for round_ in range(15):
        child = os.fork()
        if child == 0:  # it is killed in one of many writes
            try:
                while True:
                    WarmCache(large).put("one", entry(bytes([round_]) * 3_000_000))
            finally:
                os._exit(1)
        time.sleep(0.005 * round_)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        found = cache.get("one")
        assert found is None or len(set(found.files[0].content)) == 1
    assert cache.put("one", entry())
    assert cache.get("one") is not None


def test_a_full_disk_keeps_nothing_and_fails_nothing(small_disk: Path, settings: WarmSettings) -> None:
    cache = WarmCache(msgspec.structs.replace(settings, directory=str(small_disk / "warm"), max_bytes=64 << 20))
    assert cache.put("one", entry(b"x" * 1_000_000))
    with open(small_disk / "filler", "wb") as filler, contextlib.suppress(OSError):
        while True:
            filler.write(bytes(1 << 20))
    assert not cache.put("two", entry(b"x" * 1_000_000))
    assert cache.get("one") is None
    assert not list((small_disk / "warm").iterdir())
