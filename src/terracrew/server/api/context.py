"""What the API needs of a running server: a small context for each package of handlers."""

from dataclasses import dataclass

from terracrew.server.api.access.context import AccessContext
from terracrew.server.api.operations.context import OperationsContext
from terracrew.server.api.runs.context import RunsContext
from terracrew.server.api.tree.context import TreeContext


@dataclass(frozen=True)
class ApiContext:
    access: AccessContext
    operations: OperationsContext
    runs: RunsContext
    tree: TreeContext
