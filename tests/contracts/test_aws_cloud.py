"""The contract of clouds on an account of AWS in the process of the tests, and on one that another implementation enforces."""

from collections.abc import Iterator

import pytest

from tests.clouds.aws.enforced_account import EnforcedAccount
from tests.contracts.aws_place import AwsPlace
from tests.contracts.cloud import CloudContract, CloudPlace
from tests.machine import aws_account, platforms
from tests.machine.aws_account import Account, CutApi
from tests.machine.platforms.fargate import Clock, Fargate


@pytest.fixture(scope="module")
def api() -> Iterator[CutApi]:
    with aws_account.opened():
        opened = CutApi(aws_account.identity())
        yield opened
        opened.close()


class TestAws(CloudContract):
    @pytest.fixture
    def place(self, api: CutApi) -> Iterator[AwsPlace]:
        api.heal()
        with Fargate(Clock()).installed():
            yield AwsPlace(api, Account())


@pytest.fixture(scope="module")
def enforced() -> Iterator[tuple[CutApi, Account]]:
    account = EnforcedAccount(platforms.need("ministack"), "contract")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in account.variables.items():
            patch.setenv(name, value)
        identity = account.identity()
        account.make_role(identity)
        opened = CutApi(identity)
        yield opened, Account(account.client)
        opened.close()


@pytest.mark.platform("ministack")
class TestMiniStack(CloudContract):
    """The role has the permissions that people are shown, and no others."""

    @pytest.fixture
    def place(self, enforced: tuple[CutApi, Account]) -> AwsPlace:
        api, account = enforced
        api.heal()
        return AwsPlace(api, account)

    @pytest.mark.xfail(reason="MiniStack starts another task for the same token", strict=True)
    async def test_an_instance_that_is_asked_for_again_is_the_same(self, place: CloudPlace) -> None:
        await super().test_an_instance_that_is_asked_for_again_is_the_same(place)
