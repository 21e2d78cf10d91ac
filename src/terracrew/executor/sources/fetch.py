"""Fetches the source of a job, whatever its kind."""

from pathlib import Path
from typing import cast

import msgspec

from terracrew import plugins
from terracrew.errors import Conflict, Invalid, TerracrewError
from terracrew.executor.sources.contract import FetchContext, SourceFetcher
from terracrew.executor.sources.workspace import inside
from terracrew.protocol.events import SourceResolved
from terracrew.protocol.spec import FOLDER_MARK, GitSource, JobSpec, PluginSource, RegistrySource, Source, source_kind


def fetcher(kind: str) -> SourceFetcher[Source]:
    """Return the fetcher of this kind of source. Raises Invalid if no package provides one."""
    return cast("SourceFetcher[Source]", plugins.load(plugins.SOURCES, kind))


async def fetch(spec: JobSpec, workspace: Path, context: FetchContext) -> tuple[Path, SourceResolved]:
    """Fill the empty workspace. Returns the folder to run the engine in, and what was fetched."""
    source = spec.source
    if isinstance(source, GitSource) and spec.merge is not None:
        source = msgspec.structs.replace(source, merge=spec.merge)
    if isinstance(source, PluginSource):
        resolved = await _fetch_by_plugin(source, workspace, context)
    else:
        resolved = await fetcher(source_kind(source)).fetch(source, workspace, context)
    if spec.source_digest and spec.source_digest != resolved.digest:
        raise Conflict(
            f"the source changed since attempt 1 of this job: it was {spec.source_digest} and is {resolved.digest}. "
            "Run a new job to use what is there now"
        )
    return folder_in(workspace, source, resolved.digest), resolved


def folder_in(workspace: Path, source: Source, digest: str) -> Path:
    """Return the folder to run the engine in. A registry decides where a module lies in what was downloaded."""
    below = digest.partition(FOLDER_MARK)[2] if isinstance(source, RegistrySource) else ""
    return inside(workspace, "/".join(filter(None, (below, source.subdirectory))))


async def _fetch_by_plugin(source: PluginSource, workspace: Path, context: FetchContext) -> SourceResolved:
    """Fetch with the code of another package, which can raise anything."""
    if source.plugin in plugins.BUILT_IN[plugins.SOURCES]:  # it would get settings that it does not expect
        raise Invalid(f"{source.plugin!r} is not a plug-in, but a kind of source of Terracrew itself")
    found = fetcher(source.plugin)
    try:
        return await found.fetch(source, workspace, context)
    except (TerracrewError, OSError):
        raise
    except Exception as error:
        raise Invalid(f"the source {source.plugin!r} failed: {type(error).__name__}: {error}") from error
