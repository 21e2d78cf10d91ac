"""Each running attempt has a user of its own, if the settings name users and the runner may start programs as others."""

import asyncio
import os
import pwd
import subprocess
from pathlib import Path

import pytest

from terracrew.errors import Invalid
from terracrew.protocol.start import EngineAccount
from terracrew.runner import engine_users
from terracrew.runner.engine_users import EngineUsers
from terracrew.settings import layers

pytestmark = pytest.mark.feature("X4.isolation")
FIRST_UID = 23460
ACCOUNTS = [EngineAccount(FIRST_UID, FIRST_UID), EngineAccount(FIRST_UID + 1, FIRST_UID + 1)]
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can run programs as other users")


def attempt(folder: Path, name: str) -> Path:
    directory = folder / name
    directory.mkdir()
    return directory


def test_a_setting_names_a_user_or_a_range_of_ids() -> None:
    assert engine_users.parse("auto") == engine_users.parse("none") == []
    assert engine_users.parse(f"{FIRST_UID}-{FIRST_UID + 1}") == ACCOUNTS
    assert engine_users.parse(str(FIRST_UID)) == ACCOUNTS[:1]
    [nobody] = engine_users.parse("nobody")
    assert nobody.uid > 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("no-such-user", "neither a user of this machine"),
        ("root", "is root"),
        ("0", "above 0"),
        ("20005-20000", "above 0"),
        ("1-4294967295", "up to 10000"),
        ("20000-", "neither a user"),
        ("20000 20001", "neither a user"),
        ("\x00", "neither a user"),
    ],
)
def test_what_is_no_user_is_refused_in_words(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        engine_users.parse(text)


def test_an_id_whose_group_belongs_to_somebody_else_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine would be a member of that group, which may be one that has rights, such as `docker`."""
    import grp

    taken = next(each for each in grp.getgrall() if each.gr_gid > 0)

    def unknown(_: int) -> object:
        raise KeyError

    monkeypatch.setattr(engine_users.pwd, "getpwuid", unknown)
    with pytest.raises(ValueError, match=taken.gr_name):
        engine_users.parse(str(taken.gr_gid))


async def test_attempts_have_different_users_and_the_one_that_was_free_for_longest_is_next(tmp_path: Path) -> None:
    users = EngineUsers(ACCOUNTS)
    first, second = [await users.take(attempt(tmp_path, name)) for name in ("a", "b")]
    assert [first, second] == ACCOUNTS
    waiting = asyncio.create_task(users.take(attempt(tmp_path, "c")))
    await asyncio.sleep(0)
    assert not waiting.done()
    users.release("b")
    assert await waiting == ACCOUNTS[1]
    users.release("a")
    assert await users.take(attempt(tmp_path, "d")) == ACCOUNTS[0]


async def test_a_start_without_a_free_user_ends_after_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    users = EngineUsers(ACCOUNTS[:1])
    await users.take(attempt(tmp_path, "a"))
    monkeypatch.setattr(engine_users, "WAIT_SECONDS", 0.05)
    with pytest.raises(TimeoutError):
        await users.take(attempt(tmp_path, "b"))


async def test_a_restarted_runner_does_not_give_the_user_of_a_running_attempt_to_another_one(tmp_path: Path) -> None:
    await EngineUsers(ACCOUNTS).take(attempt(tmp_path, "a"))
    again = EngineUsers(ACCOUNTS)
    again.adopt(tmp_path / "a")
    assert await again.take(attempt(tmp_path, "b")) == ACCOUNTS[1]


async def test_without_users_attempts_have_none(tmp_path: Path) -> None:
    assert await EngineUsers([]).take(attempt(tmp_path, "a")) is None
    assert list((tmp_path / "a").iterdir()) == []


@needs_root
async def test_a_user_who_still_has_a_process_is_not_given_to_the_next_attempt(tmp_path: Path) -> None:
    """It could read what the next engine of that user has, and change what it does."""
    uid = ACCOUNTS[0].uid
    with subprocess.Popen(["/bin/sleep", "60"], user=uid, group=uid, extra_groups=[]) as left:
        try:
            assert await EngineUsers(ACCOUNTS).take(attempt(tmp_path, "a")) == ACCOUNTS[1]
        finally:
            left.kill()


def test_users_who_share_a_group_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """What an engine is given is readable by its group, so one attempt could read what another one has."""

    def in_one_group(_: int) -> pwd.struct_passwd:
        return pwd.getpwnam("nobody")

    monkeypatch.setattr(pwd, "getpwuid", in_one_group)
    with pytest.raises(ValueError, match="share a group"):
        engine_users.parse("20000-20001")


def test_a_runner_without_the_rights_says_so_when_it_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_users, "is_privileged", lambda: False)
    with pytest.raises(Invalid, match=r"executor\.user: this runner is not root"):
        EngineUsers(ACCOUNTS).prepare(tmp_path, [], tmp_path, [])


def test_a_directory_that_the_users_cannot_enter_is_named_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_users, "is_privileged", lambda: True)
    closed = tmp_path / "closed"
    own = closed / "runner"
    own.mkdir(parents=True)
    closed.chmod(0o700)
    with pytest.raises(Invalid, match=r"cannot enter .*Set working_directory\.working_directory"):
        EngineUsers(ACCOUNTS).prepare(own, [], own, [])


def test_a_temporary_directory_that_engines_cannot_enter_is_named_with_its_own_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Symptom: the message named the working directory, which was right. The runner had chosen a short path below a closed one."""
    monkeypatch.setattr(engine_users, "is_privileged", lambda: True)
    closed = tmp_path / "closed"

    def is_open(folder: Path, *_: object) -> bool:
        return folder != closed

    monkeypatch.setattr(engine_users, "is_open", is_open)
    own, temp = tmp_path / "own", closed / "temp"
    for folder in (own / "cache", temp):
        folder.mkdir(parents=True)
    with pytest.raises(Invalid, match=r"cannot enter .*closed.*Set working_directory\.temp_directory to") as refused:
        EngineUsers(ACCOUNTS).prepare(own, [], own / "cache", [], temp)
    assert "working_directory.working_directory" not in refused.value.message


def test_plugins_that_a_runner_with_a_strict_umask_has_downloaded_can_be_read_by_engines(tmp_path: Path) -> None:
    version = tmp_path / "plugins" / "registry" / "one" / "1.0.0"
    version.mkdir(parents=True)
    (version / "provider").write_text("a program")
    (version / "provider").chmod(0o700)
    (version / "checksums").write_text("a text")
    (version / "checksums").chmod(0o600)
    (version / "link").symlink_to("/etc/shadow")
    for folder in (version, *version.parents[:2]):
        folder.chmod(0o700)
    EngineUsers(ACCOUNTS).open_plugins(tmp_path)
    modes = {
        each.name: each.lstat().st_mode & 0o777 for each in (tmp_path / "plugins").rglob("*") if not each.is_symlink()
    }
    assert modes == {"registry": 0o755, "one": 0o755, "1.0.0": 0o755, "provider": 0o755, "checksums": 0o644}


def test_the_directories_of_engines_are_opened_and_the_caches_beside_them_are_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_users, "is_privileged", lambda: True)

    def is_open(*_: object) -> bool:
        return True

    monkeypatch.setattr(engine_users, "is_open", is_open)
    own, cache = tmp_path / "own", tmp_path / "own" / "cache"
    for folder in (cache / "plugins", cache / "archives", own / "workspaces", own / "attempts"):
        folder.mkdir(parents=True)
    (own / "attempts").chmod(0o700)
    EngineUsers(ACCOUNTS).prepare(own, [own / "workspaces"], cache, [])
    modes = {str(each.relative_to(own)): each.stat().st_mode & 0o777 for each in (own, *own.rglob("*"))}
    assert modes == {
        ".": 0o711,
        "attempts": 0o700,
        "cache": 0o711,
        "cache/archives": 0o700,
        "cache/plugins": 0o755,
        "workspaces": 0o711,
    }


def test_an_engine_of_another_user_has_a_home_that_it_can_enter() -> None:
    base = {"HOME": "/home/runner", "XDG_CACHE_HOME": "/var/cache/runner", "PATH": "/bin"}
    assert engine_users.environment_of(ACCOUNTS[0], base, "/tmp/x") == {
        "HOME": "/tmp/x",
        "LOGNAME": str(FIRST_UID),
        "PATH": "/bin",
        "USER": str(FIRST_UID),
    }


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"executor.user": f"{FIRST_UID}-{FIRST_UID + 1}"}, "2 users cannot run 4 attempts at once"),
        ({"executor.user": str(FIRST_UID), "runner.capacity": "2"}, "1 user cannot run 2 attempts at once"),
        ({"executor.user": "no-such-user"}, "neither a user of this machine"),
        (
            {"executor.user": f"{FIRST_UID}-{FIRST_UID + 9}", "job_dispatcher.type": "docker"},
            "only the dispatcher `local`",
        ),
    ],
)
def test_settings_that_cannot_work_are_refused_together(
    options: dict[str, str], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_users, "is_privileged", lambda: False)
    with pytest.raises(Invalid) as refused:
        layers.load(None, options)
    assert words in refused.value.message
    if words != "neither a user of this machine" and "docker" not in options.values():
        assert "start the runner as root" in refused.value.message
