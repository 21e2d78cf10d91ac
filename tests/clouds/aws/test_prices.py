"""What things cost by list prices, and that a region without a price has none."""

import pytest

from terracrew.api.deployments import DeploymentSettings
from terracrew.clouds.aws import prices


def test_an_instance_costs_what_its_size_says() -> None:
    small = DeploymentSettings(cpu_units=1024, memory_mb=2048, has_public_address=False)
    assert prices.awake_dollars_an_hour("us-east-1", small) == pytest.approx(0.04048 + 2 * 0.004445)
    large = DeploymentSettings(cpu_units=4096, memory_mb=8192, architecture="arm64", has_public_address=True)
    assert prices.awake_dollars_an_hour("us-east-1", large) == pytest.approx(4 * 0.03238 + 8 * 0.00356 + 0.005)


def test_spot_and_arm_cost_less_everywhere() -> None:
    for region in prices.regions():
        usual = prices.task_dollars_an_hour(region, 1024, 2048, "x86_64", is_spot=False)
        spot = prices.task_dollars_an_hour(region, 1024, 2048, "x86_64", is_spot=True)
        arm = prices.task_dollars_an_hour(region, 1024, 2048, "arm64", is_spot=False)
        assert usual is not None
        assert spot is not None
        assert arm is not None
        assert 0 < spot < arm < usual


def test_a_region_without_a_price_has_none() -> None:
    settings = DeploymentSettings()
    assert prices.awake_dollars_an_hour("mars-north-1", settings) is None
    assert prices.log_dollars_a_month("mars-north-1", 10**9) is None


def test_a_sleeping_runner_costs_its_secret() -> None:
    assert prices.asleep_dollars_a_month(DeploymentSettings()) == pytest.approx(0.40)
    assert prices.asleep_dollars_a_month(DeploymentSettings(credential="federated")) == 0
    assert prices.log_dollars_a_month("eu-central-1", 10**10) == pytest.approx(0.324)
