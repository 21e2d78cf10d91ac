"""What every store of external settings must do. A test class of a store inherits `StoreContract` and has a fixture `place`."""

import json
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from terracrew.cli.main import run as cli
from terracrew.errors import Invalid
from terracrew.settings import layers, server_layers

RUNNER = {
    "server": {"url": "https://terracrew.example"},
    "runner": {"id": "rnr_" + "1" * 32, "instance": "one", "organization_id": "org_" + "2" * 32},
}
SECRET = "hush-5eab1e55-of-the-store"
SECRET_NAME = "runner.credentials.client_secret"
MAX_ANSWER_SECONDS = 60.0


class Place(Protocol):
    """A store that runs, and that a test may change."""

    @property
    def section(self) -> dict[str, Any]:
        """The settings by which the store is reached: what `external` has beside `settings`."""
        ...

    has_fields: bool
    holds_large_values: bool

    def put(self, name: str, value: str) -> str:
        """Keep a value and return a reference to it."""
        ...

    def missing(self) -> str:
        """Return a reference to something that is not there."""
        ...

    def hang(self) -> str | None:
        """Return a reference that is never answered; None where that cannot be."""
        ...


def write(directory: Path, section: dict[str, Any], settings: dict[str, str], **runner: Any) -> Path:
    """Write a runner's file whose client secret, and other settings, are external."""
    content = json.loads(json.dumps(RUNNER))
    content["runner"] |= {"credentials": {"client_id": "sac_3"}, **runner}
    content["external"] = {**section, "settings": settings}
    file = directory / "runner.json"
    file.write_text(json.dumps(content))
    return file


def refused(file: Path) -> Invalid:
    with pytest.raises(Invalid) as error:
        layers.load(file)
    return error.value


def chain(error: BaseException | None) -> Iterator[str]:
    """Yield all that a log could print of an error and of those before it."""
    while error is not None:
        yield "".join(traceback.format_exception(error))
        yield repr(error) + repr(error.args) + repr(vars(error))
        error = error.__cause__ or error.__context__


class StoreContract:
    @pytest.mark.feature("T3.vaults", "T2.external")
    def test_a_value_overrides_every_other_layer(
        self, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("TERRACREW_RUNNER__CREDENTIALS__CLIENT_SECRET", "lower")
        monkeypatch.setenv("TERRACREW_RUNNER__CAPACITY", "2")
        wanted = {SECRET_NAME: place.put("secret", SECRET), "runner.capacity": place.put("capacity", "7")}
        config = layers.load(write(tmp_path, place.section, wanted), {"runner.capacity": "3"})
        assert (config.client_secret, config.capacity) == (SECRET, 7)

    @pytest.mark.feature("T3.vaults")
    def test_a_server_reads_its_settings_from_it(
        self, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        address = f"postgresql://crew:{SECRET}@db.example/crew"
        wanted = {"database_url": place.put("address", address), "master_key": place.put("key", SECRET)}
        file = tmp_path / "server.json"
        file.write_text(json.dumps({"external": {**place.section, "settings": wanted}}))
        found = server_layers.merged(file).settings
        assert found.database_url is not None
        assert found.database_url.get_secret_value() == address
        assert found.master_key is not None
        assert found.master_key.get_secret_value() == SECRET

    @pytest.mark.feature("T3.vaults")
    def test_one_field_of_a_secret_is_read(self, place: Place, tmp_path: Path) -> None:
        if not place.has_fields:
            pytest.skip("its values have no fields")
        reference = place.put("fields", json.dumps({"one": SECRET, "two": "other"}))
        name, _, _ = reference.partition("#")
        assert layers.load(write(tmp_path, place.section, {SECRET_NAME: f"{name}#one"})).client_secret == SECRET
        words = refused(write(tmp_path, place.section, {SECRET_NAME: f"{name}#three"})).message
        assert "the secret has no field 'three'" in words
        assert SECRET not in words

    @pytest.mark.feature("T3.vaults")
    def test_a_changed_value_is_read_the_next_time(self, place: Place, tmp_path: Path) -> None:
        file = write(tmp_path, place.section, {SECRET_NAME: place.put("secret", SECRET)})
        assert layers.load(file).client_secret == SECRET
        place.put("secret", "rotated")
        assert layers.load(file).client_secret == "rotated"

    @pytest.mark.feature("T3.errors")
    def test_everything_that_cannot_be_read_is_reported_at_once(self, place: Place, tmp_path: Path) -> None:
        wanted = {SECRET_NAME: place.missing(), "server.discovery_host": place.missing()}
        error = refused(write(tmp_path, place.section, wanted, capacity=0))
        lines = error.details["problems"]
        assert len(lines) == 3, lines
        for name, reference in wanted.items():
            shown = reference.partition("[")[0] if reference.startswith("exec:") else reference
            assert [each for each in lines if each.startswith(f"  {name} (") and shown in each]

    @pytest.mark.feature("T3.hidden")
    @pytest.mark.parametrize(
        "name", ["runner.capacity", "server.url", "runner.id", "engine.additional_binary_paths", "job_dispatcher.type"]
    )
    def test_a_value_that_is_not_valid_is_in_no_error(self, name: str, place: Place, tmp_path: Path) -> None:
        wanted = {SECRET_NAME: place.put("fine", "fine"), name: place.put("wrong", SECRET)}
        error = refused(write(tmp_path, place.section, wanted))
        assert name in error.message
        assert not [text for text in chain(error) if SECRET in text]

    @pytest.mark.feature("T3.hidden", "T2.shown")
    def test_a_value_is_not_shown_whatever_its_setting(
        self, place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        reference = place.put("visible", SECRET)
        wanted = {SECRET_NAME: reference, "runner.instance": reference}
        assert cli(["runner", "settings", "--json", "--config", str(write(tmp_path, place.section, wanted))]) == 0
        printed = capsys.readouterr()
        assert SECRET not in printed.out + printed.err
        found = {each["name"]: each for each in json.loads(printed.out)}
        assert found["runner.instance"]["value"] == "(hidden)"
        assert found["runner.instance"]["origin"].endswith(f", by {tmp_path}/runner.json:1")

    @pytest.mark.feature("T3.errors")
    def test_an_empty_value_is_refused(self, place: Place, tmp_path: Path) -> None:
        try:
            reference = place.put("empty", "")
        except ValueError:
            pytest.skip("it keeps no empty values")
        assert "the value is empty" in refused(write(tmp_path, place.section, {SECRET_NAME: reference})).message

    @pytest.mark.feature("T3.bounds")
    def test_a_value_that_is_too_long_is_refused(self, place: Place, tmp_path: Path) -> None:
        if not place.holds_large_values:
            pytest.skip("its own limit is lower")
        reference = place.put("large", SECRET * 4000)
        error = refused(write(tmp_path, place.section, {SECRET_NAME: reference}))
        assert "longer than 64 KiB" in error.message or "printed more than" in error.message
        assert not [text for text in chain(error) if SECRET in text]

    @pytest.mark.feature("T3.bounds")
    def test_a_store_that_does_not_answer_is_not_waited_for_without_end(self, place: Place, tmp_path: Path) -> None:
        reference = place.hang()
        if reference is None:
            pytest.skip("it cannot hang")
        started = time.monotonic()
        section = {**place.section, "timeout_seconds": 1}
        error = refused(write(tmp_path, section, {SECRET_NAME: reference}))
        assert time.monotonic() - started < MAX_ANSWER_SECONDS
        assert f"  {SECRET_NAME} (" in error.message
