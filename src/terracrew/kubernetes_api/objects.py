"""The parts of Kubernetes' objects that Terracrew reads."""

import msgspec


class ObjectMetadata(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    uid: str = ""
    labels: dict[str, str] = {}
    resource_version: str = ""
    deletion_timestamp: str | None = None


class ObjectCondition(msgspec.Struct, frozen=True, rename="camel"):
    type: str
    status: str = ""
    reason: str | None = None
    message: str | None = None


class WaitingState(msgspec.Struct, frozen=True, rename="camel"):
    reason: str | None = None
    message: str | None = None


class RunningState(msgspec.Struct, frozen=True, rename="camel"):
    started_at: str | None = None


class TerminatedState(msgspec.Struct, frozen=True, rename="camel"):
    exit_code: int = 0
    reason: str | None = None
    message: str | None = None


class ContainerState(msgspec.Struct, frozen=True, rename="camel"):
    waiting: WaitingState | None = None
    running: RunningState | None = None
    terminated: TerminatedState | None = None


class ContainerStatus(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    state: ContainerState = ContainerState()
    container_id: str | None = msgspec.field(default=None, name="containerID")


class ContainerResources(msgspec.Struct, frozen=True, rename="camel"):
    limits: dict[str, str] = {}


class Container(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    resources: ContainerResources = ContainerResources()


class PodSpec(msgspec.Struct, frozen=True, rename="camel"):
    node_name: str | None = None
    containers: list[Container] = []


class PodStatus(msgspec.Struct, frozen=True, rename="camel"):
    phase: str = ""
    reason: str | None = None
    message: str | None = None
    conditions: list[ObjectCondition] = []
    container_statuses: list[ContainerStatus] = []
    init_container_statuses: list[ContainerStatus] = []


class Pod(msgspec.Struct, frozen=True, rename="camel"):
    metadata: ObjectMetadata
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    def condition(self, kind: str) -> ObjectCondition | None:
        """Return the condition of this type, if it is true or false."""
        return next((each for each in self.status.conditions if each.type == kind), None)


class ListMetadata(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""


class PodList(msgspec.Struct, frozen=True, rename="camel"):
    metadata: ListMetadata
    items: list[Pod]


class BatchJobStatus(msgspec.Struct, frozen=True, rename="camel"):
    conditions: list[ObjectCondition] | None = None


class BatchJob(msgspec.Struct, frozen=True, rename="camel"):
    metadata: ObjectMetadata
    status: BatchJobStatus = BatchJobStatus()


class BatchJobList(msgspec.Struct, frozen=True, rename="camel"):
    items: list[BatchJob]


class ClusterEvent(msgspec.Struct, frozen=True, rename="camel"):
    type: str | None = None
    reason: str | None = None
    message: str | None = None
    last_timestamp: str | None = None


class ClusterEventList(msgspec.Struct, frozen=True, rename="camel"):
    items: list[ClusterEvent]


class ApiStatus(msgspec.Struct, frozen=True, rename="camel"):
    """What the API server answers instead of an object."""

    kind: str
    message: str | None = None
    reason: str | None = None
    code: int | None = None
