"""Reading a log takes little time, whatever a module has printed into it."""

import time

import pytest

from terracrew.api.lost_resources import LoggedChange
from terracrew.server.db.seam import Database
from terracrew.server.jobs.lost_resources import log_lines
from terracrew.server.runs import attempt_report
from tests.builders.deliveries import log
from tests.server.jobs.changes import Change

LOG_BYTES = 200_000
MAX_SECONDS = 0.5


def hostile(piece: str) -> str:
    return piece * (LOG_BYTES // len(piece))


@pytest.mark.parametrize(
    "text",
    [
        "a: Creating..." + hostile(" [id=]") + "x",
        hostile("a: Creating..." + " [id=]" * 600 + "x\n"),
        hostile("a: Creation complete after 1s" + " [id=]" * 600 + "x\n"),
        "a: Creating..." + hostile("\x9d"),
        hostile("a: Creation complete after "),
    ],
    ids=["one line of ids", "lines of ids", "lines of ids at the end", "starts of strings", "almost an end"],
)
def test_what_a_log_says_was_made_is_found_in_bounded_time(text: str) -> None:
    """One line of 200 KB with ` [id=]` again and again stopped the server for minutes when its attempt was looked at."""
    start = time.process_time()
    log_lines.changes(text.splitlines())
    assert time.process_time() - start < MAX_SECONDS


def test_an_id_that_holds_brackets_is_found_whole() -> None:
    lines = ["a: Creating... [id=b [id=c]]", "d: Creating... [id=e", "f: Creation complete after 1s [id=]"]
    assert log_lines.changes(lines) == [
        LoggedChange("a", "creating", "b [id=c]"),
        LoggedChange("d", "creating"),
        LoggedChange("f", "created"),
    ]


async def test_an_attempt_is_looked_at_in_bounded_time_whatever_its_log_holds(database: Database) -> None:
    """The last line of the log was searched for in the whole of its last piece, which a module can fill as it likes."""
    change = await Change.begun(database)
    await change.tell(log("a: Creating..." + hostile(" [id=]") + "x\n" + hostile("\x9d") + "\n the last line \n"))
    start = time.process_time()
    found = await database.read(lambda tx: attempt_report.report(tx, change.job_id, 1))
    assert time.process_time() - start < MAX_SECONDS
    assert found.last_line == "the last line"


async def test_only_some_of_many_doubts_have_their_log_read(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One view of a module read the log of each of its doubts, up to 2 MiB of each, however many there were."""
    change = await Change.begun(database)
    await change.tell(log("a.z: Creating...\n"))
    await change.gone(last=change.next - 1)
    (doubt,) = await database.read(lambda tx: attempt_report.doubts(tx, change.module))
    assert (len(doubt.made), doubt.is_made_cut) == (1, False)
    monkeypatch.setattr(attempt_report, "MAX_DOUBTS_WITH_MADE", 0)
    (doubt,) = await database.read(lambda tx: attempt_report.doubts(tx, change.module))
    assert (doubt.made, doubt.may_miss_state, doubt.is_made_cut) == ([], True, True)
