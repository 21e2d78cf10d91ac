import pytest

from tests.builders.job_rows import JobRows
from tests.server.rollouts.rollout_rows import RolloutRows


@pytest.fixture
async def rollouts(rows: JobRows) -> RolloutRows:
    return RolloutRows(rows)
