"""Pulumi, as it is registered: its steps, and the identity of its states."""

from collections.abc import Sequence

from terracrew.executor.engines.contract import Engine, EngineContext, StateIdentity
from terracrew.executor.engines.pulumi import checkpoint, failure
from terracrew.executor.engines.pulumi.session import PulumiSession
from terracrew.protocol.spec import Step
from terracrew.source_rules import configurations
from terracrew.toolchains import discovery
from terracrew.toolchains.discovery import FoundEngine

NAME = "pulumi"


class PulumiEngine(Engine):
    name = NAME
    steps = frozenset(Step) - {Step.VALIDATE}
    """Pulumi has no command that only checks a program: its preview does that."""
    configuration_patterns = configurations.PATTERNS[NAME]

    def find(self, paths: Sequence[str]) -> FoundEngine:
        return discovery.require(self.name, paths)

    def find_all(self, paths: Sequence[str]) -> Sequence[FoundEngine]:
        return discovery.find_versions(self.name, paths)

    def open(self, found: FoundEngine, context: EngineContext) -> PulumiSession:
        return PulumiSession(found, context)

    def identify_state(self, content: bytes) -> StateIdentity:
        return checkpoint.identify(content)

    def emptied_state(self, content: bytes) -> bytes:
        return checkpoint.emptied(content)

    def has_lost_changes(self, printed: str) -> bool:
        return failure.has_lost_changes(printed)


ENGINE = PulumiEngine()
