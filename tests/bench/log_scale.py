"""Logs at scale: a long one that is searched, one job with many viewers, and many jobs that print at once.

All processes share this machine, so the CPU is what counts: `log_ingest.{server,postgres}_cpu_s` is for a million lines,
`log_viewers.cpu_us` for one message to one viewer, and `log_search.cpu_s` for two million lines. `log_search.first_ms` is the time until
the answer with the first hits: of a word that most lines have, of an expression, of a step, and of a word that only the last line
has, from the start of the log, from its last 200,000 lines, and with `since`; `middle` is the same for a word in the middle.
`log_search.none_ms` is the time until it is known that no line has a word. They are measured with the log in rows and in the object store.
`log_search.others_ms` is how long other requests take while five people search, beside what it is while nobody does.
"""

import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, LiteralString

import httpx
import msgspec
import psutil
import psycopg

from terracrew.api.job_views import LogFound
from terracrew.client.http import Api
from tests.bench import cpu
from tests.bench.figures import median, percentile
from tests.bench.filled_server import Env, Filled, filled
from tests.bench.log_load import LogFigures, LogTask

JOBS, LINES_OF_JOB = 50, 40_000
LONG_LINES = 2_000_000
VIEWERS, WATCHED_SECONDS = 500, 15
LINES_PER_SECOND, DELIVERIES_PER_SECOND = 2_000, 20
MAX_VIEWERS_OF_TOKEN = 90
SEARCHES = 5
SEARCHERS, SEARCHED_SECONDS = 5, 15.0
LAST_PART_LINES = 200_000


def ingest(env: Env) -> dict[str, float]:
    found: dict[str, float] = {}
    for kind in ("sqlite", "postgres"):
        with filled(env, kind, runners=1, modules=JOBS) as there:
            cpu.wait_until_quiet(there.process.pid)
            before, before_database = _cpu(there)
            figures = _run(_printing(there, LINES_OF_JOB))
            after, after_database = _cpu(there)
        millions = figures.lines / 1e6
        found |= {
            f"log_ingest.lines_per_s.{kind}": figures.lines / figures.seconds,
            f"log_ingest.server_cpu_s.{kind}": (after - before) / millions,
            f"log_ingest.postgres_cpu_s.{kind}": (after_database - before_database) / millions,
            f"log_ingest.client_cpu_s.{kind}": figures.cpu_seconds / millions,
        }
    _say(env, found)
    return found


def viewers(env: Env) -> dict[str, float]:
    with filled(env, "sqlite", runners=1, modules=1) as there:
        tokens = [there.token, *_tokens(there, -(-VIEWERS // MAX_VIEWERS_OF_TOKEN) - 1)]
        cpu.wait_until_quiet(there.process.pid)
        before, _ = _cpu(there)
        memory = psutil.Process(there.process.pid).memory_info().rss
        lines = LINES_PER_SECOND * WATCHED_SECONDS
        task = _printing(there, lines, LINES_PER_SECOND, LINES_PER_SECOND // DELIVERIES_PER_SECOND)
        with _started(task) as printing:
            assert printing.stderr is not None
            job_id = printing.stderr.readline().decode().strip()
            watched = _run(LogTask("watch", there.system.url, tokens, job_id=job_id, viewers=VIEWERS))
        after, _ = _cpu(there)
        grown = psutil.Process(there.process.pid).memory_info().rss - memory
    found = {
        "log_viewers.p50_ms": watched.latency_ms_p50,
        "log_viewers.p95_ms": watched.latency_ms_p95,
        "log_viewers.p99_ms": watched.latency_ms_p99,
        "log_viewers.server_mb": grown / 2**20,
        "log_viewers.server_cpu_s": after - before,
        "log_viewers.cpu_us": 1e6 * (after - before) / max(1, watched.messages),
        "log_viewers.messages": watched.messages,
        "log_viewers.mb": watched.received_bytes / 1e6,
    }
    _say(env, found)
    return found


def search(env: Env) -> dict[str, float]:
    found: dict[str, float] = {}
    for kind in ("sqlite", "postgres"):
        with filled(env, kind, runners=1, modules=1) as there:
            task = msgspec.structs.replace(_printing(there, LONG_LINES), batch_lines=4_000)
            with _started(task) as printing:
                assert printing.stderr is not None
                job_id = printing.stderr.readline().decode().strip()
            cpu.wait_until_quiet(there.process.pid)
            found |= _searched(there, job_id, f"{kind}.rows")
            if kind == "sqlite":
                found |= _others(there, job_id)
            _wait_until_moved(there)
            found |= _searched(there, job_id, f"{kind}.objects")
    _say(env, found)
    return found


def run(env: Env) -> dict[str, float]:
    return ingest(env) | viewers(env) | search(env)


def _searched(there: Filled, job_id: str, where: str) -> dict[str, float]:
    """Return the times of searches in a log, each the median of some."""
    api = there.system.api
    middle, last = f"id={LONG_LINES // 2 // 3 * 3 * 2654435761 % (1 << 32):08x}", f"request {LONG_LINES - 1} "
    end = api.get(f"/jobs/{job_id}/log/search", LogFound, text="request", after=f"1.{LONG_LINES - 1_000}").hits[0].time
    before, _ = _cpu(there)
    from_start = _median(api, job_id, last)
    after, _ = _cpu(there)
    first = {
        "common": _median(api, job_id, "request"),
        "regex": _median(api, job_id, r"^\S+ request \d+ .*ms$", regex=True),
        "step": _median(api, job_id, "request", step="plan"),
        "since": _median(api, job_id, last, since=datetime.fromtimestamp(end - 0.5, UTC).isoformat()),
        "tail": _median(api, job_id, last, after=f"1.{LONG_LINES - LAST_PART_LINES}"),
        "middle": _median(api, job_id, middle),
        "last": from_start,
    }
    return {f"log_search.first_ms.{where}.{name}": value for name, value in first.items()} | {
        f"log_search.cpu_s.{where}.last": (after - before) / SEARCHES,
        f"log_search.none_ms.{where}": _median(api, job_id, "there is no such line"),
    }


def _median(api: Api, job_id: str, text: str, **query: Any) -> float:
    return median([_first(api, job_id, text, **query) for _ in range(SEARCHES)])


def _wait_until_moved(there: Filled) -> None:
    """Let the server move the log to the object store: it does so five minutes after the end of an attempt."""
    _sql(there, "UPDATE attempts SET ended_at = ended_at - 300")
    while _sql(there, "SELECT count(*) FROM attempts WHERE has_log_chunks"):
        time.sleep(1)


def _sql(there: Filled, statement: LiteralString) -> int:
    """Run a statement, and return the number that it is answered with."""
    if there.database_url:
        with psycopg.connect(there.database_url) as connection:
            found = connection.execute(statement)
            row = found.fetchone() if found.description else None
    else:
        with sqlite3.connect(there.system.data / "terracrew.db", timeout=60) as file:
            row = file.execute(statement).fetchone()
    return row[0] if row else 0


def _others(there: Filled, job_id: str) -> dict[str, float]:
    """Return how long other requests take while people search, and while nobody does."""
    quiet = _answers(there, SEARCHED_SECONDS)
    is_over = threading.Event()
    tokens = [there.token, *_tokens(there, SEARCHERS - 1)]

    def go_on(token: str) -> None:
        api = Api(there.system.url, token)
        while not is_over.is_set():
            _first(api, job_id, "there is no such line")

    people = [threading.Thread(target=go_on, args=(token,)) for token in tokens]
    for each in people:
        each.start()
    busy = _answers(there, SEARCHED_SECONDS)
    is_over.set()
    for each in people:
        each.join()
    return {
        "log_search.others_ms.quiet.p50": median(quiet),
        "log_search.others_ms.quiet.p95": percentile(quiet, 0.95),
        "log_search.others_ms.busy.p50": median(busy),
        "log_search.others_ms.busy.p95": percentile(busy, 0.95),
    }


def _answers(there: Filled, seconds: float) -> list[float]:
    until, taken = time.perf_counter() + seconds, list[float]()
    while time.perf_counter() < until:
        began = time.perf_counter()
        there.system.api.get("/jobs?limit=20")
        taken.append(1000 * (time.perf_counter() - began))
        time.sleep(0.05)
    return taken


def _tokens(there: Filled, count: int) -> list[str]:
    """Return tokens of other principals, since what one may open at once is limited."""
    found: list[str] = []
    for at in range(count):
        api = there.system.api
        account = api.post("/service-accounts", {"name": f"viewer-{at}", "group": ""})["id"]
        secret = api.post(f"/service-accounts/{account}/secrets", {})
        api.post("/roles", {"principal": account, "role": "viewer"})
        form = {"grant_type": "client_credentials"} | {name: secret[name] for name in ("client_id", "client_secret")}
        answer = httpx.post(f"{there.system.url}/connect/token", data=form)
        found.append(answer.raise_for_status().json()["access_token"])
    return found


def _first(api: Api, job_id: str, text: str, *, after: str = "", **query: Any) -> float:
    """Return the milliseconds until the first hit is there, or until it is known that there is none."""
    began = time.perf_counter()
    while True:
        page = api.get(f"/jobs/{job_id}/log/search", LogFound, text=text, after=after or None, **query)
        if page.hits or page.is_end:
            return 1000 * (time.perf_counter() - began)
        after = page.after


def _printing(there: Filled, lines: int, rate: float = 0.0, batch: int = 1_000) -> LogTask:
    return LogTask("print", there.system.url, [there.token], there.members[0], there.modules, lines, batch, rate)


def _run(task: LogTask) -> LogFigures:
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.log_load"],
        input=msgspec.json.encode(task),
        capture_output=True,
        check=False,
        timeout=900,
    )
    if done.returncode:
        raise RuntimeError(done.stderr.decode()[-3000:])
    return msgspec.json.decode(done.stdout, type=LogFigures)


@contextmanager
def _started(task: LogTask) -> "Generator[subprocess.Popen[bytes]]":
    """Start a load, and wait for its end."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.bench.log_load"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin is not None
    process.stdin.write(msgspec.json.encode(task))
    process.stdin.close()
    try:
        yield process
        if process.wait(300):
            raise RuntimeError(process.stderr.read().decode()[-3000:] if process.stderr else "")
    finally:
        process.kill()
        process.wait(20)


def _cpu(there: Filled) -> tuple[float, float]:
    database = cpu.of_postgres(there.database_url) if there.database_url else 0.0
    return cpu.of_process(there.process.pid), database


def _say(env: Env, found: dict[str, float]) -> None:
    for name, value in found.items():
        env.say(f"{name}: {value:,.2f}")
