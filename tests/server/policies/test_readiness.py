"""A server that has to evaluate policies and cannot says so where its operators look."""

import pytest

from terracrew.server.policies import service
from terracrew.server.policies.opa import Opa
from terracrew.server.policies.service import CANNOT_EVALUATE, FRESH_SECONDS, Policies
from tests.server.policies.looking import NEVER, Looking

pytestmark = [pytest.mark.platform("opa"), pytest.mark.feature("P3.stopped")]


async def test_a_missing_program_is_a_warning_once_a_policy_is_active(
    looking: Looking, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await looking.policy(NEVER, is_active=False)
    now = 0.0
    policies = Policies(looking.rows.db, Opa(), lambda: now)
    with monkeypatch.context() as patch:
        patch.setenv("PATH", "/nowhere")
        patch.setenv("TERRACREW_CACHE", "/nowhere")
        assert await policies.problem() == "", "a draft looks at no plan"
        now += FRESH_SECONDS
        patch.undo()
        await looking.activate(made.path)
    with monkeypatch.context() as patch:
        patch.setenv("PATH", "/nowhere")
        patch.setenv("TERRACREW_CACHE", "/nowhere")
        assert await policies.problem() == CANNOT_EVALUATE
        now += FRESH_SECONDS
        await looking.rows.db.write(lambda tx: service.retire(tx, looking.who, made.path))
        assert await policies.problem() == ""


async def test_with_the_program_there_is_no_warning(looking: Looking) -> None:
    await looking.policy(NEVER)
    assert await looking.policies.problem() == ""
