"""Finds the engines that this runner announces to the server: for each name, the version that a job would use.

The server offers a job only to runners that announce its engine. An engine counts if its adapter is installed, as a part of
Terracrew or of another package, and finds a program that runs.
"""

import asyncio
import logging
from collections.abc import Sequence

from terracrew import plugins
from terracrew.errors import EngineMissing
from terracrew.executor.engines import registry
from terracrew.protocol import limits
from terracrew.toolchains import discovery

log = logging.getLogger(__name__)


async def find(extra_paths: Sequence[str]) -> dict[str, str]:
    return await asyncio.to_thread(_find, extra_paths)


def _find(extra_paths: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name in plugins.names(plugins.ENGINES):
        if not plugins.is_name(name):
            log.warning("the engine %r is not used: no module can have this name", name)
            continue
        try:
            engine = registry.get(name).find(extra_paths)
            if not limits.is_label(engine.version):
                log.warning(
                    "the engine %r is not used: the version that %s prints is not a short text", name, engine.path
                )
            elif len(found) == limits.MAX_ENGINES:
                log.warning("the engine %r is not used: a runner has at most %d engines", name, limits.MAX_ENGINES)
            elif discovery.answers(engine):
                found[name] = engine.version
            else:
                log.warning(
                    "the engine %r is not used: %s does not answer when it is asked for its version", name, engine.path
                )
        except EngineMissing as error:
            log.debug("%s", error.message)
        except Exception:  # the code of another package must not keep the runner from serving other engines
            log.exception("the engine %r is not used", name)
    return found
