"""OpenTofu or Terraform as an engine: its steps, and the identity of its states."""

from collections.abc import Mapping, Sequence

from terracrew.executor.engines.contract import DownloadContext, Engine, EngineContext, StateIdentity
from terracrew.executor.engines.hcl import failure, plugins, provider_download, state
from terracrew.executor.engines.hcl.dialect import TERRAFORM, TOFU, Dialect
from terracrew.executor.engines.hcl.session import HclSession
from terracrew.protocol.spec import Step
from terracrew.source_rules import configurations
from terracrew.toolchains import discovery
from terracrew.toolchains.discovery import FoundEngine


class HclEngine(Engine):
    steps = frozenset(Step)
    validates_in_plan = True

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self.name = dialect.name
        self.configuration_patterns = configurations.PATTERNS[dialect.name]

    def find(self, paths: Sequence[str]) -> FoundEngine:
        return discovery.require(self.name, paths)

    def find_all(self, paths: Sequence[str]) -> Sequence[FoundEngine]:
        return discovery.find_versions(self.name, paths)

    def open(self, found: FoundEngine, context: EngineContext) -> HclSession:
        return HclSession(self._dialect, found, context)

    def identify_state(self, content: bytes) -> StateIdentity:
        return state.identify(content)

    def sensitive_outputs(self, content: bytes) -> Mapping[str, object]:
        return state.sensitive_outputs(content)

    def emptied_state(self, content: bytes) -> bytes:
        return state.emptied(content)

    def has_lost_changes(self, printed: str) -> bool:
        return failure.has_lost_changes(printed)

    async def download(self, item: str, context: DownloadContext) -> bool:
        return await provider_download.download(self.name, item, context)

    def drop_damaged(self, context: DownloadContext) -> Sequence[str]:
        return [each.folder for each in plugins.drop_damaged(plugins.shared_cache(context.cache_directory))]


TOFU_ENGINE = HclEngine(TOFU)
TERRAFORM_ENGINE = HclEngine(TERRAFORM)
