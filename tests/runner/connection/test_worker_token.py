"""The worker token that a runner replaces by itself: a crash at any moment leaves one that the server accepts."""

import asyncio
import hashlib
import threading
from pathlib import Path

import pytest

from terracrew.errors import RateLimited, Unauthenticated
from terracrew.runner.connection import worker_token
from terracrew.runner.connection.access_token import RenewedToken, Tokens
from terracrew.runner.connection.worker_token import FILE, ROTATION_SECONDS, WorkerToken
from tests.machine import small_disk

pytestmark = pytest.mark.feature("A2.rotation")

FIRST = "tcw_first"


class Crash(Exception):
    """The process ends here."""


class Server:
    """The server's side of an exchange, which may crash its client before or after it has done its part."""

    def __init__(self) -> None:
        self.valid, self.next = digest(FIRST), ""
        self.crash_before = self.crash_after = False

    def exchange(self, form: dict[str, str]) -> RenewedToken:
        if self.crash_before:
            raise Crash
        if (shown := digest(form["client_secret"])) not in (self.valid, self.next):
            raise Unauthenticated("not this one")
        if shown == self.next:
            self.valid, self.next = shown, ""
        self.next = form.get("next_secret_sha256", self.next)
        if self.crash_after:
            raise Crash
        return RenewedToken("token", 900.0, is_next_secret_accepted="next_secret_sha256" in form)


def digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


@pytest.fixture(autouse=True)
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which tests set; and a disk that stays."""
    found = [1_000_000.0]
    monkeypatch.setattr("time.time", lambda: found[0])
    monkeypatch.setattr(worker_token, "is_volatile", lambda _: False)
    return found


def started(directory: Path, server: Server, configured: str = FIRST) -> Tokens:
    """A process that starts with this in its settings."""
    tokens = Tokens("http://127.0.0.1:1", "org:rnr", WorkerToken(directory, configured))

    def post(form: str) -> RenewedToken:
        from urllib.parse import parse_qsl

        return server.exchange(dict(parse_qsl(form)))

    tokens.post = post
    return tokens


async def test_a_token_is_replaced_after_a_day_and_the_new_one_survives_a_restart(
    tmp_path: Path, now: list[float]
) -> None:
    server = Server()
    tokens = started(tmp_path, server)
    await tokens.renew()
    assert server.valid == digest(FIRST)
    now[0] += ROTATION_SECONDS
    await tokens.renew()
    assert (server.valid == digest(FIRST), server.next) == (False, "")
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600
    second = server.valid
    await started(tmp_path, server).renew()
    assert server.valid == second, "the settings still have the first one"
    now[0] += 30 * 24 * 3600
    await started(tmp_path, server).renew()
    assert server.valid not in (second, digest(FIRST)), "after a month it comes back, and replaces the token"


async def test_a_full_disk_delays_the_replacement_and_nothing_else(tmp_path: Path, now: list[float]) -> None:
    """Symptom: the rotation failed with «No space left on device», so no token was renewed and the runner went offline."""
    server = Server()
    with small_disk.mounted(tmp_path / "disk", "1m") as disk:
        tokens = started(disk, server)
        await tokens.renew()
        small_disk.fill(disk / "ballast")
        now[0] += ROTATION_SECONDS
        for _ in range(2):
            assert await tokens.renew() == "token"
        assert (server.valid, server.next) == (digest(FIRST), "")
        (disk / "ballast").unlink()
        await tokens.renew()
        assert server.valid != digest(FIRST)


@pytest.mark.parametrize("answer", ["accepted", "declined"])
async def test_a_disk_that_becomes_full_during_the_replacement_leaves_a_token_that_works(
    tmp_path: Path, now: list[float], answer: str
) -> None:
    server, exchange = Server(), Server.exchange
    with small_disk.mounted(tmp_path / "disk", "1m") as disk:
        tokens = started(disk, server)
        await tokens.renew()
        now[0] += ROTATION_SECONDS

        def fill_first(form: dict[str, str]) -> RenewedToken:
            if not (disk / "ballast").exists():
                small_disk.fill(disk / "ballast")
            if answer == "declined":
                form.pop("next_secret_sha256", None)
            return exchange(server, form)

        server.exchange = fill_first
        for _ in range(2):
            assert await tokens.renew() == "token"
        assert await started(disk, server).renew() == "token"
        assert (server.valid == digest(FIRST)) == (answer == "declined")


@pytest.mark.parametrize("moment", ["crash_before", "crash_after"])
@pytest.mark.parametrize("exchanges", [1, 2])
async def test_a_crash_at_any_moment_locks_nobody_out(
    tmp_path: Path, now: list[float], moment: str, exchanges: int
) -> None:
    server = Server()
    await started(tmp_path, server).renew()
    now[0] += ROTATION_SECONDS
    count, exchange = 0, server.exchange

    def counted(form: dict[str, str]) -> RenewedToken:
        nonlocal count
        count += 1
        setattr(server, moment, count == exchanges)
        return exchange(form)

    server.exchange = counted
    with pytest.raises(Crash):
        await started(tmp_path, server).renew()
    await started(tmp_path, server).renew()
    assert server.valid != digest(FIRST)


async def test_where_the_server_does_not_replace_it_the_token_stays_and_is_offered_again_a_day_later(
    tmp_path: Path, now: list[float]
) -> None:
    shown: list[str] = []
    server = Server()

    def unwilling(form: dict[str, str]) -> RenewedToken:
        shown.append(form["client_secret"])
        return RenewedToken("token", 900.0)

    server.exchange = unwilling
    tokens = started(tmp_path, server)
    for seconds in (0.0, ROTATION_SECONDS, 600.0, 600.0):
        now[0] += seconds
        await tokens.renew()
    assert shown == [FIRST] * 4


@pytest.mark.parametrize("days", [1, 3, 30])
async def test_a_server_that_was_restored_from_a_backup_gets_the_token_that_it_knows(
    tmp_path: Path, now: list[float], days: int
) -> None:
    """After a restore, every runner whose token had been replaced since the backup was locked out."""
    server, known = Server(), list[str]()
    for _ in range(days + 1):
        await started(tmp_path, server).renew()
        known.append(server.valid)
        now[0] += ROTATION_SECONDS
    backup = known[-4] if days > 3 else known[0]
    server.valid, server.next = backup, ""
    await started(tmp_path, server).renew()
    assert server.valid == backup
    tokens = started(tmp_path, server)
    await tokens.renew()
    assert server.valid not in known, "a token that was in use before does not stay"
    server.valid = digest("tcw_revoked")
    with pytest.raises(Unauthenticated):
        await tokens.renew()


async def test_a_machine_that_was_restored_from_an_older_image_is_told_to_register_again(
    tmp_path: Path, now: list[float]
) -> None:
    """Its log said "this credential is not valid" once a minute, and nothing else."""
    server = Server()
    await started(tmp_path, server).renew()
    image = (tmp_path / FILE).read_bytes()
    for _ in range(2):
        now[0] += ROTATION_SECONDS
        await started(tmp_path, server).renew()
    (tmp_path / FILE).write_bytes(image)
    with pytest.raises(Unauthenticated, match=r"restored from an older image.*terracrew runner register .* --replace"):
        await started(tmp_path, server).renew()
    server.valid = digest("tcw_second")
    await started(tmp_path, server, "tcw_second").renew()


async def test_a_server_that_was_restored_by_mistake_may_be_given_up_again(tmp_path: Path, now: list[float]) -> None:
    server = Server()
    for _ in range(3):
        await started(tmp_path, server).renew()
        now[0] += ROTATION_SECONDS
    first, server.valid = server.valid, digest(FIRST)
    await started(tmp_path, server).renew()
    server.valid = first
    await started(tmp_path, server).renew()
    assert server.valid == first


async def test_two_exchanges_at_a_time_do_not_overwrite_each_others_secrets(tmp_path: Path, now: list[float]) -> None:
    """A task that is cancelled leaves a thread that goes on: its late answer to the old token replaced the new one."""
    server = Server()
    tokens = started(tmp_path, server)
    await tokens.renew()
    exchange, order = server.exchange, list[str]()

    def slow(form: dict[str, str]) -> RenewedToken:
        answer = exchange(form)
        order.append(form["client_secret"])
        threading.Event().wait(0.2 if len(order) == 1 else 0.0)
        return answer

    server.exchange = slow
    first = asyncio.create_task(tokens.renew())
    await asyncio.sleep(0.05)
    now[0] += ROTATION_SECONDS
    await asyncio.gather(first, tokens.renew())
    server.exchange = exchange
    await started(tmp_path, server).renew()
    assert order == [FIRST, FIRST, order[2]]
    assert server.valid == digest(order[2])


async def test_failures_of_others_do_not_keep_a_runner_from_its_valid_token(tmp_path: Path, now: list[float]) -> None:
    """A server that counts failures says "too many" to a token that it has not heard of; the next one was not tried."""
    server = Server()
    await started(tmp_path, server).renew()
    now[0] += ROTATION_SECONDS
    server.crash_before = True
    with pytest.raises(Crash):
        await started(tmp_path, server).renew()
    server.crash_before, exchange = False, server.exchange

    def limited(form: dict[str, str]) -> RenewedToken:
        try:
            return exchange(form)
        except Unauthenticated as error:
            raise RateLimited(error.message, retry_after=30) from error

    server.exchange = limited
    await started(tmp_path, server).renew()


async def test_a_runner_that_was_registered_anew_uses_what_its_settings_have(tmp_path: Path, now: list[float]) -> None:
    server = Server()
    await started(tmp_path, server).renew()
    now[0] += ROTATION_SECONDS
    await started(tmp_path, server).renew()
    server.valid = digest("tcw_anew")
    await started(tmp_path, server, "tcw_anew").renew()


async def test_secrets_of_service_accounts_and_tokens_on_a_volatile_disk_stay(
    tmp_path: Path, now: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not WorkerToken(tmp_path, "tcs_secret").rotates
    assert not WorkerToken(tmp_path, FIRST, rotates=False).rotates
    monkeypatch.setattr(worker_token, "is_volatile", lambda _: True)
    assert not WorkerToken(tmp_path, FIRST).rotates
    monkeypatch.undo()
    assert worker_token.is_volatile(Path("/dev/shm"))
