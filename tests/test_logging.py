"""Diagnostics by level and category."""

import io
import logging
from collections.abc import Iterator

import pytest
from websockets.client import ClientProtocol
from websockets.uri import parse_uri

from terracrew import logging as diagnostics


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def _said(levels: dict[str, str], category: str) -> list[str]:
    stream = io.StringIO()
    diagnostics.configure(levels, stream)
    logger = logging.getLogger(category)
    for level in (diagnostics.TRACE, logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL):
        logger.log(level, "x")
    return [line.split()[1] for line in stream.getvalue().splitlines()]


@pytest.mark.feature("L1.levels", "T1.levels")
@pytest.mark.parametrize(
    ("levels", "category", "lowest"),
    [
        ({}, "terracrew.runner.attempts.supervisor", "INFO"),
        ({}, "websockets.client", "WARNING"),
        ({"Default": "Error"}, "terracrew.runner.attempts.supervisor", "ERROR"),
        ({"Default": "Error", "terracrew": "Debug"}, "terracrew.runner.attempts.supervisor", "DEBUG"),
        ({"terracrew": "Debug", "Terracrew.Runner.": "Critical"}, "terracrew.runner.attempts.supervisor", "CRITICAL"),
        (
            {"terracrew.runner.attempts.supervisor": "Trace", "terracrew.runner": "None"},
            "terracrew.runner.attempts.supervisor",
            "TRACE",
        ),
        ({"terracrew.runner.attempts.supervisor": "Trace"}, "terracrew.runner.attempts.claims", "INFO"),
    ],
)
def test_the_longest_category_that_fits_decides(levels: dict[str, str], category: str, lowest: str) -> None:
    order = ["TRACE", "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"]
    assert _said(levels, category) == order[order.index(lowest) :]


@pytest.mark.parametrize("levels", [{"websockets": "debug"}, {"websockets.client": "trace", "default": "trace"}])
def test_no_level_prints_the_credential_of_a_websocket(levels: dict[str, str]) -> None:
    """`websockets: debug` printed `> Authorization: Bearer …` whenever a runner connected."""
    stream = io.StringIO()
    diagnostics.configure(levels, stream)
    uri = parse_uri("ws://127.0.0.1/runnerhub")
    protocol = ClientProtocol(uri, logger=logging.getLogger("websockets.client"))
    request = protocol.connect()
    request.headers["Authorization"] = "Bearer tcw_secret"
    protocol.send_request(request)
    assert protocol.data_to_send(), "the request was made"
    logging.getLogger("websockets.client").info("connection open")
    assert stream.getvalue().endswith("websockets.client: connection open\n")
    assert "tcw_secret" not in stream.getvalue()


@pytest.mark.feature("T1.levels")
def test_none_is_silence() -> None:
    assert _said({"terracrew": "None"}, "terracrew.runner") == []


def test_a_second_configuration_replaces_the_first() -> None:
    first = io.StringIO()
    diagnostics.configure({}, first)
    assert _said({}, "terracrew.runner") == ["INFO", "WARNING", "ERROR", "CRITICAL"]
    assert first.getvalue() == ""


def test_a_warning_and_an_error_show_the_exception_that_they_are_given() -> None:
    """Symptom: a claim that failed for a reason that nobody expected was logged with `exc_info=True` and no traceback."""
    stream = io.StringIO()
    diagnostics.configure({}, stream)
    log = diagnostics.get_logger("terracrew.hub")
    try:
        raise KeyError("a column")
    except KeyError as error:
        log.warning("a claim failed", job="job_1", exc_info=error)
        log.error("a task failed", exc_info=error)
    assert stream.getvalue().count("Traceback") == 2
    assert "a claim failed job=job_1\n" in stream.getvalue()
    assert "exc_info" not in stream.getvalue()
