"""The parts of Kubernetes' objects that Terracrew reads."""

import msgspec


class ObjectMetadata(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    uid: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    resource_version: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None


class AnyObject(msgspec.Struct, frozen=True, rename="camel"):
    """An object of any kind, as far as all kinds are alike."""

    metadata: ObjectMetadata


class ObjectList(msgspec.Struct, frozen=True, rename="camel"):
    items: list[AnyObject]


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
    finished_at: str | None = None


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


class EventSubject(msgspec.Struct, frozen=True, rename="camel"):
    uid: str = ""


class ClusterEvent(msgspec.Struct, frozen=True, rename="camel"):
    type: str | None = None
    reason: str | None = None
    message: str | None = None
    last_timestamp: str | None = None
    involved_object: EventSubject = EventSubject()


class ClusterEventList(msgspec.Struct, frozen=True, rename="camel"):
    items: list[ClusterEvent]


class ResourceQuotaStatus(msgspec.Struct, frozen=True, rename="camel"):
    hard: dict[str, str] = {}
    used: dict[str, str] = {}


class ResourceQuota(msgspec.Struct, frozen=True, rename="camel"):
    metadata: ObjectMetadata
    status: ResourceQuotaStatus = ResourceQuotaStatus()


class ResourceQuotaList(msgspec.Struct, frozen=True, rename="camel"):
    items: list[ResourceQuota]


class UserInfo(msgspec.Struct, frozen=True, rename="camel"):
    username: str = ""


class SelfSubjectReviewStatus(msgspec.Struct, frozen=True, rename="camel"):
    user_info: UserInfo = UserInfo()


class SelfSubjectReview(msgspec.Struct, frozen=True, rename="camel"):
    """What the API server answers to the question who one is."""

    status: SelfSubjectReviewStatus = SelfSubjectReviewStatus()


class AccessReviewStatus(msgspec.Struct, frozen=True, rename="camel"):
    allowed: bool = False


class SelfSubjectAccessReview(msgspec.Struct, frozen=True, rename="camel"):
    """What the API server answers to the question whether one may do something."""

    status: AccessReviewStatus = AccessReviewStatus()


class ApiStatus(msgspec.Struct, frozen=True, rename="camel"):
    """What the API server answers instead of an object."""

    kind: str
    message: str | None = None
    reason: str | None = None
    code: int | None = None
