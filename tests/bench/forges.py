"""`forge_poll_percent`: the share of a core that a server needs to poll a thousand repositories in which nothing happens, at the default
period. `delivery_ms`: from the connection of a forge that delivers until its 202, while all that goes on.

The forge is local and speaks TLS. It knows just enough of the API of GitHub, and answers 304 to every question that has a tag.
"""

import asyncio
import contextlib
import hashlib
import hmac
import ssl
import threading
import time
from collections.abc import Generator

import msgspec

from terracrew.api.forges import ForgeRepositoryView
from terracrew.client.http import Api
from tests.bench import cpu
from tests.bench.figures import percentile
from tests.bench.filled_server import Env, Filled, filled
from tests.machine.certificates import certificate

REPOSITORIES = 1_000
SETTLE_SECONDS, POLLED_SECONDS = 60, 300
"""Six periods of polling. Comments are asked for once in this time."""
DELIVERIES, PAUSE_SECONDS = 1_000, 0.08
TOPICS = 200
"""How many pull requests the deliveries are about."""
_PADDING_CHARACTERS = 25_000
"""A delivery of GitHub about a pull request has about so many characters that nobody reads."""
_COMMIT = "0123456789abcdef0123456789abcdef01234567"
_TIME = "2026-01-01T00:00:00Z"


def run(env: Env) -> dict[str, float]:
    found: dict[str, float] = {}
    with _forge(env) as (url, trusted):
        environment = {"SSL_CERT_FILE": trusted, "TERRACREW_SERVER_PRIVATE_DESTINATIONS": '["localhost"]'}
        for kind in ("sqlite", "postgres"):
            with filled(env, kind, 1, modules=1, environment=environment) as there:
                api = Api(there.system.url, there.token)
                api.post("/forges", {"name": "hub", "kind": "github", "base_url": url, "token": "t0ken"})
                hook = api.post("/forges/hub/hook-secret", {})
                for number in range(REPOSITORIES):
                    api.post("/forges/hub/repositories", {"name": f"acme/network-{number}"})
                _wait_until_polled(api)
                found[f"forge_poll_percent.{kind}"] = _polled(env, kind, there)
                path = hook["url"].removeprefix(there.system.url)
                seconds = asyncio.run(_deliver(there.system.port, path, hook["secret"].encode()))
                for share in (0.5, 0.99):
                    found[f"delivery_ms.{kind}.p{share * 100:.0f}"] = percentile(seconds, share) * 1000
                env.say(
                    f"delivery_ms.{kind}: {percentile(seconds, 0.99) * 1000:.1f} (the longest: {max(seconds) * 1000:.1f})"
                )
    return found


def _wait_until_polled(api: Api) -> None:
    """Wait until each repository was polled once, so that its questions have tags and its hook is made."""
    deadline = time.monotonic() + 300
    while (
        sum(each.hook_status == "enabled" for each in api.list("/forges/hub/repositories", ForgeRepositoryView))
        < REPOSITORIES
    ):
        assert time.monotonic() < deadline, "the repositories were not polled"
        time.sleep(2)


def _polled(env: Env, kind: str, there: Filled) -> float:
    time.sleep(SETTLE_SECONDS)
    before, asked = cpu.of_process(there.process.pid), _Forge.asked
    time.sleep(POLLED_SECONDS)
    percent = (cpu.of_process(there.process.pid) - before) / POLLED_SECONDS * 100
    questions = _Forge.asked - asked
    each = percent / 100 * POLLED_SECONDS / questions * 1000
    env.say(f"forge_poll_percent.{kind}: {percent:.1f} ({questions} questions, {each:.2f} ms of CPU each)")
    return percent


async def _deliver(port: int, path: str, secret: bytes) -> list[float]:
    """Deliver one after the other, each on a connection of its own, and return how long each took."""
    found: list[float] = []
    for number in range(DELIVERIES):
        body = _body(number % TOPICS)
        head = (
            f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
            f"X-GitHub-Event: pull_request\r\nX-GitHub-Delivery: {number}\r\n"
            f"X-Hub-Signature-256: sha256={hmac.digest(secret, body, hashlib.sha256).hex()}\r\nConnection: close\r\n\r\n"
        )
        began = time.perf_counter()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(head.encode() + body)
        line = await reader.readline()
        found.append(time.perf_counter() - began)
        assert b" 202 " in line, line
        writer.close()
        await asyncio.sleep(PAUSE_SECONDS)
    return found


def _body(topic: int) -> bytes:
    return msgspec.json.encode(
        {
            "action": "synchronize",
            "number": 1 + topic,
            "pull_request": {"number": 1 + topic, "body": "x" * _PADDING_CHARACTERS},
            "repository": {"full_name": f"acme/network-{topic}"},
        }
    )


class _Forge:
    asked = 0

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, ssl.SSLError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                method, target, _ = head.partition("\r\n")[0].split(" ")
                lines = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if ": " in line)
                await reader.readexactly(int(lines.get("content-length", "0")))
                _Forge.asked += 1
                writer.write(_answer(method, target.partition("?")[0], "if-none-match" in lines))
                await writer.drain()
                if lines.get("connection") == "close":
                    break
        writer.close()


def _answer(method: str, path: str, has_tag: bool) -> bytes:
    if has_tag:
        return b'HTTP/1.1 304 Not Modified\r\nETag: "tag"\r\n\r\n'
    owner, name, *asked = path.removeprefix("/api/v3/repos/").split("/")
    match asked:
        case []:
            content = msgspec.json.encode({"full_name": f"{owner}/{name}", "html_url": "", "default_branch": "main"})
        case ["commits", *_]:
            content = _COMMIT.encode()
        case ["pulls", number]:
            content = msgspec.json.encode(_pull_request(int(number)))
        case ["hooks"] if method == "POST":
            content = b'{"id": 1}'
        case _:
            content = b"[]"
    return b'HTTP/1.1 200 OK\r\nETag: "tag"\r\nContent-Length: %d\r\n\r\n%b' % (len(content), content)


def _pull_request(number: int) -> dict[str, object]:
    side = {"ref": "main", "sha": _COMMIT, "repo": {"id": 1}}
    return {
        "number": number,
        "title": "",
        "html_url": "",
        "state": "closed",
        "user": None,
        "head": side,
        "base": side,
        "updated_at": _TIME,
    }


@contextlib.contextmanager
def _forge(env: Env) -> Generator[tuple[str, str]]:
    """Run the forge in a thread. Yields its address, and the file with its certificate."""
    crt, key = certificate(env.folder("forge"))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(crt, key)
    loop = asyncio.new_event_loop()
    web = loop.run_until_complete(asyncio.start_server(_Forge().handle, "127.0.0.1", 0, ssl=tls))
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield f"https://localhost:{web.sockets[0].getsockname()[1]}", str(crt)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        web.close()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()
