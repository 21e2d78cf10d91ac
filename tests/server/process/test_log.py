"""The server's own log has one form, shows tracebacks, and contains no value of a variable."""

import asyncio
import logging

import pytest

from terracrew.logging import EventLogger, get_logger
from terracrew.server.process import diagnostics


@pytest.fixture
def log(capsys: pytest.CaptureFixture[str]) -> EventLogger:
    del capsys  # it captures before the log is sent to standard output
    diagnostics.configure()
    return get_logger("terracrew.server")


def test_a_traceback_in_the_log_shows_no_variable(log: EventLogger, capsys: pytest.CaptureFixture[str]) -> None:
    secret = "".join(["tch", "_", "only-this-frame-has-it"])
    try:
        raise ValueError("it broke")
    except ValueError:
        log.exception("a delivery failed")
    assert len(secret) > 0  # it is alive while the traceback is made
    printed = capsys.readouterr()
    assert "ValueError: it broke" in printed.out + printed.err
    assert "only-this-frame-has-it" not in (printed.out + printed.err).replace("\n", "")


@pytest.mark.parametrize("level", ["warning", "error"])
def test_an_exception_of_an_entry_is_logged_with_its_traceback(
    log: EventLogger, capsys: pytest.CaptureFixture[str], level: str
) -> None:
    """A claim that failed for an unknown reason was logged as `exc_info=True`, without the traceback."""
    diagnostics.configure()
    try:
        raise ValueError("it broke")
    except ValueError as error:
        getattr(log, level)("a claim failed", exc_info=error, job="job_1")
    printed = capsys.readouterr().out
    assert "a claim failed job=job_1\nTraceback" in printed
    assert printed.endswith("ValueError: it broke\n")


@pytest.mark.usefixtures("log")
@pytest.mark.parametrize(
    ("error", "is_logged"),
    [(asyncio.CancelledError("Task cancelled, timeout graceful shutdown exceeded"), False), (ValueError("odd"), True)],
)
def test_a_request_that_a_stop_ended_is_no_exception_in_the_application(
    caplog: pytest.LogCaptureFixture, error: BaseException, is_logged: bool
) -> None:
    logging.getLogger("uvicorn.error").error("Exception in ASGI application", exc_info=error)
    assert bool(caplog.records) is is_logged


def test_everything_that_a_server_prints_has_one_form(log: EventLogger, capsys: pytest.CaptureFixture[str]) -> None:
    """One terminal showed two forms of log entries: those of the server, and those of its built-in runner."""
    diagnostics.configure()
    log.info("runner connected", runner="built-in", note="two words")
    logging.getLogger("terracrew.runner").info("leaving; %d attempts go on", 2)
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(" ")[2] for line in lines] == [
        "INFO     terracrew.server: runner connected runner=built-in note='two words'",
        "INFO     terracrew.runner: leaving; 2 attempts go on",
    ]
    assert all(line[10] == "T" and line[23] == "Z" for line in lines)


@pytest.mark.feature("C2.configuration")
@pytest.mark.parametrize(
    ("levels", "shown"),
    [
        ({}, {"runner": "INFO", "heartbeat": "INFO", "server": "INFO"}),
        ({"Default": "Debug"}, {"runner": "DEBUG", "heartbeat": "DEBUG", "server": "INFO"}),
        ({"terracrew": "error"}, {"runner": "ERROR", "heartbeat": "ERROR", "server": "INFO"}),
        ({"Default": "none", "terracrew.runner.heartbeat": "debug"}, {"heartbeat": "DEBUG", "server": "INFO"}),
        ({"terracrew.server": "debug", "asyncio": "debug"}, {"runner": "INFO", "heartbeat": "INFO", "server": "INFO"}),
    ],
)
@pytest.mark.usefixtures("log")
def test_the_log_levels_of_the_built_in_runner_apply_to_its_own_entries(
    capsys: pytest.CaptureFixture[str], levels: dict[str, str], shown: dict[str, str]
) -> None:
    """The built-in runner said that it had new log levels, and logged as before."""
    diagnostics.configure_builtin_runner(levels)
    names = {
        "runner": "terracrew.runner",
        "heartbeat": "terracrew.runner.heartbeat",
        "server": "terracrew.server",
    }
    found: dict[str, str] = {}
    for short, name in names.items():
        for level in ("ERROR", "INFO", "DEBUG"):
            logging.getLogger(name).log(getattr(logging, level), "%s", f"{level} of {short}")
            if f"{level} of {short}\n" in capsys.readouterr().out:
                found[short] = level
    diagnostics.configure()
    assert found == shown
