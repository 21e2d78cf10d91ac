"""What Rego can do to the server that evaluates it: nothing outside of its process, and only within bounds."""

import asyncio
import contextlib
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from terracrew.errors import Invalid, Unavailable
from terracrew.server.policies.opa import MAX_TURNS, Opa, OpaBusy

pytestmark = [pytest.mark.platform("opa"), pytest.mark.feature("P3.refused")]
ENDLESS = """package terracrew

deny contains "x" if {
    some a in numbers.range(1, 100000)
    some b in numbers.range(1, 100000)
    a * b == -1
}
"""
MUCH = 'package terracrew\n\ndeny contains sprintf("%s%d", [input.plan.text, i]) if some i in numbers.range(1, 2000)\n'


@contextlib.contextmanager
def listening() -> Iterator[tuple[str, list[str]]]:
    """A server that notes which addresses it is asked for."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"type": "string"}')

        def log_message(self, *args: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.parametrize("function", ["json.match_schema({}, %s)", "json.verify_schema(%s)"])
async def test_a_schema_fetches_nothing(function: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret.json"
    secret.write_text(json.dumps({"type": "object", "required": ["password_1234"]}))
    with listening() as (address, asked):
        for where in (f"{address}/schema.json", secret.as_uri()):
            schema = json.dumps({"$ref": where})
            rego = f"package terracrew\ndeny contains sprintf('%v', [x]) if x := {function % schema}\n".replace(
                "'", '"'
            )
            with contextlib.suppress(Invalid):
                await Opa().check(rego)
            [found] = await Opa().evaluate(rego, [b'{"plan": {}}'])
            assert found.verdict == "failed", found
            assert "password_1234" not in str(found.messages)
    assert asked == []


@pytest.mark.parametrize("mark", ["# METADATA", "#METADATA", "#\xa0METADATA", "x := 1 #\t METADATA: x"])
async def test_an_annotation_reads_no_file(mark: str, tmp_path: Path) -> None:
    """The schema of an annotation quoted files of the server in its errors."""
    secret = tmp_path / "secret.json"
    secret.write_text('{"type": "password_1234"}')
    rego = (
        f"package terracrew\n\n{mark}\n# schemas:\n"
        f'#   - input.plan: {{"$ref": "{secret.as_uri()}"}}\n'
        'deny contains "x" if input.plan.x\n'
    )
    with pytest.raises(Invalid, match=r"line 3: annotations .* are not allowed") as refused:
        await Opa().check(rego)
    assert "password_1234" not in refused.value.message
    [found] = await Opa().evaluate(rego, [b'{"plan": {}}'])
    assert found.verdict == "failed"
    assert "password_1234" not in str(found.messages)


@pytest.mark.parametrize(
    "call",
    [
        'net.lookup_ip_addr("localhost")',
        "opa.runtime()",
        'uuid.rfc4122("x")',
        'rand.intn("x", 10)',
        'io.jwt.decode_verify("x", {})',
        'crypto.x509.parse_and_verify_certificates("x")',
    ],
)
async def test_what_asks_the_world_is_refused_and_is_not_evaluated(call: str) -> None:
    rego = f"package terracrew\ndeny contains 1 if {call}\n"
    with pytest.raises(Invalid, match="undefined function"):
        await Opa().check(rego)
    [found] = await Opa().evaluate(rego, [b"{}"])
    assert found.verdict == "failed"


async def test_deeply_nested_rego_is_no_fault_of_the_server() -> None:
    await Opa().check(f"package terracrew\ndeny contains x if x := {'[' * 300 + ']' * 300}\n")
    with pytest.raises(Invalid):
        await Opa().check(f"package terracrew\ndeny contains x if x := {'not ' * 9_000}1\n")


async def test_what_takes_too_long_is_ended_and_the_loop_goes_on() -> None:
    begun = time.monotonic()
    task = asyncio.create_task(Opa().evaluate(ENDLESS, [b"{}"], 1.0))
    longest = 0.0
    while not task.done():
        before = time.monotonic()
        await asyncio.sleep(0.01)
        longest = max(longest, time.monotonic() - before)
    [found] = await task
    assert found.verdict == "failed"
    assert "did not end within" in found.messages[0].text
    assert time.monotonic() - begun < 6
    assert longest < 0.5


async def test_what_prints_too_much_is_ended_and_the_loop_goes_on() -> None:
    task = asyncio.create_task(Opa().evaluate(MUCH, [json.dumps({"plan": {"text": "word " * 2_000}}).encode()]))
    longest = 0.0
    while not task.done():
        before = time.monotonic()
        await asyncio.sleep(0.01)
        longest = max(longest, time.monotonic() - before)
    [found] = await task
    assert found.verdict == "failed"
    assert "printed more than" in found.messages[0].text
    assert longest < 0.5


async def test_what_is_tried_and_saved_delays_no_permission() -> None:
    opa = Opa(wait_seconds=0.2)
    trials = [asyncio.create_task(opa.evaluate(ENDLESS, [b"{}"], 4.0, is_background=True)) for _ in range(3)]
    await asyncio.sleep(0.5)
    [found] = await opa.evaluate('package terracrew\ndeny contains "no" if true\n', [b"{}"])
    assert found.verdict == "denied"
    with pytest.raises(OpaBusy):
        await opa.check("package terracrew\ndeny contains 1 if true\n")
    for each in trials:
        each.cancel()
    await asyncio.gather(*trials, return_exceptions=True)


async def test_policies_of_one_organization_delay_those_of_another_by_no_more_than_one_turn() -> None:
    """An owner with slow policies and many jobs kept the changes of all other organizations waiting, for as long as they liked."""
    opa = Opa()
    slow = [asyncio.create_task(opa.evaluate(ENDLESS, [b"{}"], 1.5, organization_id="slow")) for _ in range(8)]
    await asyncio.sleep(0.3)
    [found] = await opa.evaluate('package terracrew\ndeny contains "no" if true\n', [b"{}"], organization_id="other")
    assert found.verdict == "denied"
    assert sum(each.done() for each in slow) <= MAX_TURNS
    for each in slow:
        each.cancel()
    await asyncio.gather(*slow, return_exceptions=True)


async def test_what_needs_too_much_memory_says_so() -> None:
    """It said that what was printed cannot be read, because that was truncated."""
    lines = [f's{n} := sprintf("%s%s", [s{n - 1}, s{n - 1}])' for n in range(1, 24)]
    rego = "\n".join(["package terracrew", f's0 := "{"x" * 500}"', *lines, 'deny contains "x" if count(s23) == 1'])
    [found] = await Opa().evaluate(rego, [b"{}"])
    assert [each.text for each in found.messages] == ["opa has crashed: the policy needs more memory than it may use"]


async def test_a_server_without_the_program_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("TERRACREW_CACHE", "/nowhere")
    with pytest.raises(Unavailable, match="is not installed on the server"):
        await Opa().evaluate(ENDLESS, [b"{}"])
