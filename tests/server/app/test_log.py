"""What a server's own log may not hold."""

import asyncio
import logging
from collections.abc import Iterator

import pytest
import structlog

from terracrew.server.main import configure_log


@pytest.fixture
def log() -> Iterator[structlog.BoundLogger]:
    structlog.reset_defaults()
    configure_log()
    yield structlog.get_logger("terracrew.server")
    structlog.reset_defaults()


def test_a_traceback_in_the_log_shows_no_variable(
    log: structlog.BoundLogger, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = "".join(["tch", "_", "only-this-frame-has-it"])
    try:
        raise ValueError("it broke")
    except ValueError:
        log.exception("a delivery failed")
    assert len(secret) > 0  # it is alive while the traceback is made
    printed = capsys.readouterr()
    assert "ValueError: it broke" in printed.out + printed.err
    assert "only-this-frame-has-it" not in (printed.out + printed.err).replace("\n", "")


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
