"""What the watch of pods remembers, and what it forgets. Needs no cluster."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from terracrew.runner.dispatch.kubernetes.manifests import ATTEMPT
from terracrew.runner.dispatch.kubernetes.pod_watch import PodWatch
from tests.runner.conftest import TIMEOUT_SECONDS
from tests.runner.dispatch.kubernetes import scripted_api

pytestmark = pytest.mark.feature("D6.watched")


def _pod(uid: str, attempt: str, version: int) -> dict[str, Any]:
    labels = {ATTEMPT: attempt} if attempt else {}
    return {"metadata": {"name": uid, "uid": uid, "labels": labels, "resourceVersion": str(version)}}


class ScriptedPods:
    """An API server whose list of pods, and whose changes, come from the test."""

    def __init__(self) -> None:
        self.listed: list[dict[str, Any]] = []
        self.lists = 0
        self._changes: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._version = 0

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if "watch" not in request.query:
            self.lists += 1
            return web.json_response({"metadata": {"resourceVersion": "0"}, "items": self.listed})
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            change = await self._changes.get()
            await response.write(json.dumps(change).encode() + b"\n")
            if change["type"] == "ERROR":
                return response

    def add(self, uid: str, attempt: str) -> None:
        self._say("ADDED", uid, attempt)

    def delete(self, uid: str, attempt: str) -> None:
        self._say("DELETED", uid, attempt)

    def expire(self) -> None:
        """Let the watch begin again with a list."""
        gone = {"kind": "Status", "code": 410, "reason": "Expired"}
        self._changes.put_nowait({"type": "ERROR", "object": gone})

    def _say(self, kind: str, uid: str, attempt: str) -> None:
        self._version += 1
        self._changes.put_nowait({"type": kind, "object": _pod(uid, attempt, self._version)})


@pytest.fixture
async def scripted(tmp_path: Path) -> AsyncIterator[tuple[ScriptedPods, PodWatch]]:
    scripted = ScriptedPods()
    async with scripted_api.served(scripted.handle, tmp_path):
        api = scripted_api.client(tmp_path)
        watch = PodWatch(api, "key=k")
        yield scripted, watch
        await watch.close()
        await api.close()
        scripted.expire()  # the request that waits for changes ends, too


async def _until(watch: PodWatch, is_true: Callable[[], bool]) -> None:
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while True:
            change = watch.next_change()
            if is_true():
                return
            await change.wait()


async def test_the_last_state_of_a_pod_stays_until_its_attempt_is_forgotten(
    scripted: tuple[ScriptedPods, PodWatch],
) -> None:
    pods, watch = scripted
    watch.remember("a.1")
    await watch.listed()
    pods.add("one", "a.1")
    pods.delete("one", "a.1")
    await _until(watch, lambda: [seen.is_gone for seen in watch.of("a.1")] == [True])
    watch.forget("a.1")
    assert watch.get("one") is None


async def test_a_pod_that_is_forgotten_before_it_is_gone_does_not_stay_in_memory(
    scripted: tuple[ScriptedPods, PodWatch],
) -> None:
    """A runner that had run for weeks kept the last state of thousands of pods."""
    pods, watch = scripted
    watch.remember("a.1")
    watch.remember("b.1")
    await watch.listed()
    pods.add("one", "a.1")
    await _until(watch, lambda: watch.get("one") is not None)
    watch.forget("a.1")
    assert watch.get("one") is not None, "it exists"
    pods.delete("one", "a.1")
    pods.add("engines", "")
    pods.delete("engines", "")
    pods.add("two", "b.1")
    await _until(watch, lambda: watch.get("two") is not None)
    assert watch.get("one") is None
    assert watch.get("engines") is None


async def test_a_new_list_keeps_only_what_is_there_and_what_is_remembered(
    scripted: tuple[ScriptedPods, PodWatch],
) -> None:
    pods, watch = scripted
    pods.listed = [_pod("one", "a.1", 0), _pod("two", "b.1", 0), _pod("three", "c.1", 0)]
    watch.remember("a.1")
    await watch.listed()
    pods.listed = [_pod("three", "c.1", 0)]
    pods.expire()
    await _until(watch, lambda: pods.lists == 2 and watch.get("two") is None)
    assert [seen.is_gone for seen in watch.of("a.1")] == [True]
    assert [seen.is_gone for seen in watch.of("c.1")] == [False]
