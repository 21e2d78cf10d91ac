"""Fetches the source of a job, whatever its kind."""

from pathlib import Path
from typing import cast

from terracrew import plugins
from terracrew.errors import Conflict
from terracrew.executor.sources.contract import FetchContext, SourceFetcher
from terracrew.executor.sources.workspace import inside
from terracrew.protocol.events import SourceResolved
from terracrew.protocol.spec import JobSpec, Source, source_kind


def fetcher(kind: str) -> SourceFetcher[Source]:
    """Return the fetcher of this kind of source. Raises Invalid if no package provides one."""
    return cast("SourceFetcher[Source]", plugins.load(plugins.SOURCES, kind))


async def fetch(spec: JobSpec, workspace: Path, context: FetchContext) -> tuple[Path, SourceResolved]:
    """Fill the (empty) workspace; return the folder to run the engine in, and what the source was."""
    resolved = await fetcher(source_kind(spec.source)).fetch(spec.source, workspace, context)
    if spec.source_digest and spec.source_digest != resolved.digest:
        raise Conflict(
            f"the source changed since attempt 1 of this job: it was {spec.source_digest} and is {resolved.digest}. "
            "Run a new job to use what is there now"
        )
    return inside(workspace, spec.source.subdirectory), resolved
