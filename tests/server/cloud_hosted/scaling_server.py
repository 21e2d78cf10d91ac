"""A server as far as cloud-hosted runners are concerned, with a cloud in memory."""

from terracrew.server.cloud_hosted.describing import ServerFacts
from terracrew.server.cloud_hosted.scaling import Scaling
from terracrew.server.connections.registry import Registry
from terracrew.server.db.seam import Database
from terracrew.server.scheduling.scheduler import Scheduler
from terracrew.server.supervise import Tasks
from tests.server.cloud_hosted.simulated_cloud import SimulatedCloud
from tests.server.scheduling.recorded_claims import record

FACTS = ServerFacts("https://terracrew.example.com", "https://terracrew.example.com", "0.1.0", "runner:0.1.0")


class ScalingServer:
    """A server as far as cloud-hosted runners are concerned. The tests take each of its steps."""

    def __init__(self, db: Database, cloud: SimulatedCloud) -> None:
        self.db, self.cloud = db, cloud
        self.registry = Registry()
        self.scheduler = Scheduler(db, self.registry, record)
        self.tasks = Tasks()
        self.scaling = Scaling(db, self.scheduler, cloud, FACTS, self.tasks)

    async def step(self) -> None:
        """Read everything, decide, and wait until the cloud was asked."""
        await self.scheduler.sweep()
        self.scaling.note_changes()
        await self.scaling.step()
        await self.tasks.join()
