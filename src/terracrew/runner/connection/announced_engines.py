"""Finds the engines that this runner announces to the server: for each name, the version that a job would use."""

import asyncio
from collections.abc import Sequence

from terracrew.toolchains import discovery


async def find(extra_paths: Sequence[str]) -> dict[str, str]:
    found = await asyncio.to_thread(discovery.find_all, extra_paths)
    return {engine.name: engine.version for engine in reversed(found)}
