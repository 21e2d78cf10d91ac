"""OpenTofu as an engine: its steps, and the identity of its states."""

from collections.abc import Sequence

from terracrew import configurations
from terracrew.executor.engines.contract import DownloadContext, EngineContext, StateIdentity
from terracrew.executor.engines.tofu import provider_download, state
from terracrew.executor.engines.tofu.session import TofuSession
from terracrew.protocol.spec import Step
from terracrew.toolchains import discovery
from terracrew.toolchains.discovery import FoundEngine


class OpenTofu:
    name = "tofu"
    steps = frozenset(Step)
    configuration_patterns = configurations.PATTERNS[name]

    def find(self, paths: Sequence[str]) -> FoundEngine:
        return discovery.require(self.name, paths)

    def open(self, found: FoundEngine, context: EngineContext) -> TofuSession:
        return TofuSession(found, context)

    def identify_state(self, content: bytes) -> StateIdentity:
        return state.identify(content)

    def emptied_state(self, content: bytes) -> bytes:
        return state.emptied(content)

    async def download(self, item: str, context: DownloadContext) -> bool:
        return await provider_download.download(item, context)


ENGINE = OpenTofu()
