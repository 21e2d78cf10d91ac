"""The instance metadata of EC2 is asked only on EC2, with tokens and bounds, and what it announces is taken and withdrawn."""

from collections.abc import Generator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from terracrew.runner import notices
from terracrew.runner.departure import Departures
from terracrew.runner.notices import Ec2Metadata, NoticeWatch
from tests.runner import metadata_server
from tests.runner.metadata_server import MetadataServer


@pytest.fixture
def metadata() -> Generator[MetadataServer]:
    with metadata_server.serving() as server:
        yield server


def machine(directory: Path, **files: str) -> Path:
    """Return a /sys in which these files describe the machine."""
    for name, text in files.items():
        path = directory / ("hypervisor/uuid" if name == "uuid" else f"class/dmi/id/{name}")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return directory


def test_a_machine_that_is_not_on_ec2_is_not_asked(tmp_path: Path) -> None:
    assert notices.endpoint({}, is_wanted=False, system=machine(tmp_path, sys_vendor="QEMU\n")) is None
    assert notices.endpoint({}, is_wanted=False, system=tmp_path / "none") is None


@pytest.mark.parametrize("files", [{"sys_vendor": "Amazon EC2\n"}, {"uuid": "ec2e1916-9099-7caf-fd21-012345abcdef\n"}])
def test_a_machine_on_ec2_is_known_by_its_firmware(tmp_path: Path, files: dict[str, str]) -> None:
    system = machine(tmp_path, **files)
    assert notices.endpoint({}, is_wanted=False, system=system) == notices.ENDPOINT
    for variables in ({"AWS_EC2_METADATA_DISABLED": "true"}, {"AWS_EXECUTION_ENV": "AWS_ECS_FARGATE"}):
        assert notices.endpoint(variables, is_wanted=True, system=system) is None


def test_with_none_nothing_is_asked(metadata: MetadataServer) -> None:
    variables = {notices.ENDPOINT_VARIABLE: metadata.url}
    assert notices.find("none", variables, Departures()) is None
    assert notices.find("auto", variables, Departures()) is not None


@pytest.mark.feature("O2.notices")
async def test_a_notice_is_announced_once_and_withdrawn_when_it_is_gone(metadata: MetadataServer) -> None:
    departures = Departures()
    changes: list[str] = []
    departures.on_change = lambda: changes.append(departures.current.reason if departures.current else "")
    follower = NoticeWatch(Ec2Metadata(metadata.url), departures, gives_up=True)
    await follower.step()
    assert departures.current is None
    metadata.pages["events/recommendations/rebalance"] = '{"noticeTime": "2026-11-18T12:00:00Z"}'
    await follower.step()
    noticed = departures.current
    await follower.step()
    assert departures.current == noticed
    ends = datetime.now(UTC) + timedelta(seconds=120)
    metadata.pages["spot/instance-action"] = f'{{"action": "terminate", "time": "{ends:%Y-%m-%dT%H:%M:%SZ}"}}'
    await follower.step()
    metadata.pages.clear()
    await follower.step()
    assert changes == ["rebalance recommendation", "spot notice", ""]
    assert metadata.tokens == 1


@pytest.mark.feature("O2.notices")
async def test_a_token_that_has_expired_is_replaced(metadata: MetadataServer) -> None:
    departures = Departures()
    follower = NoticeWatch(Ec2Metadata(metadata.url), departures, gives_up=True)
    await follower.step()
    metadata.valid_token = "another"
    metadata.pages["autoscaling/target-lifecycle-state"] = "Terminated"
    await follower.step()
    assert departures.current is not None
    assert metadata.tokens == 2


async def test_what_was_announced_stays_while_the_metadata_does_not_answer(metadata: MetadataServer) -> None:
    departures = Departures()
    follower = NoticeWatch(Ec2Metadata(metadata.url), departures, gives_up=True)
    metadata.pages["autoscaling/target-lifecycle-state"] = "Terminated"
    await follower.step()
    noticed = departures.current
    metadata.pages["spot/instance-action"] = "<html>not a notice</html>"
    await follower.step()
    metadata.pages["spot/instance-action"] = "x" * (100 << 10)
    await follower.step()
    metadata.server_close()
    await follower.step()
    assert noticed is not None
    assert departures.current == noticed


async def test_metadata_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container on EC2 often cannot reach the metadata, because the answer may not be forwarded."""
    monkeypatch.setattr(notices, "POLL_SECONDS", 0.0)
    with metadata_server.serving() as server:
        address = server.url
    await NoticeWatch(Ec2Metadata(address), Departures(), gives_up=True).run()
