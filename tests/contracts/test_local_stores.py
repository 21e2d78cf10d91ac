"""The stores of external settings that are on this machine keep the contract: files, variables, programs."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from terracrew.settings import layers
from tests.contracts.settings_store import SECRET, SECRET_NAME, Place, StoreContract, refused, write

pytestmark = pytest.mark.usefixtures("no_settings")


class FilesPlace:
    has_fields = True
    holds_large_values = True

    def __init__(self, directory: Path) -> None:
        self.section: dict[str, Any] = {}
        self._directory = directory

    def put(self, name: str, value: str) -> str:
        (self._directory / name).write_text(f"{value}\n")
        return f"file:{self._directory / name}"

    def missing(self) -> str:
        return f"file:{self._directory}/missing"

    def hang(self) -> str | None:
        os.mkfifo(self._directory / "pipe")
        return f"file:{self._directory}/pipe"


class VariablesPlace:
    has_fields = False
    holds_large_values = True

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.section: dict[str, Any] = {}
        self._monkeypatch = monkeypatch

    def put(self, name: str, value: str) -> str:
        self._monkeypatch.setenv(f"CREW_{name.upper()}", value)
        return f"variable:CREW_{name.upper()}"

    def missing(self) -> str:
        return "variable:CREW_MISSING"

    def hang(self) -> str | None:
        return None


class ProgramsPlace(FilesPlace):
    has_fields = False

    def put(self, name: str, value: str) -> str:
        super().put(name, value)
        return f"exec:{json.dumps(['/bin/cat', str(self._directory / name)])}"

    def missing(self) -> str:
        return 'exec:["/does/not/exist"]'

    def hang(self) -> str | None:
        return 'exec:["/bin/sleep", "600"]'


class TestFiles(StoreContract):
    @pytest.fixture
    def place(self, tmp_path: Path) -> Place:
        return FilesPlace(tmp_path)

    @pytest.mark.feature("T3.private")
    def test_no_job_may_read_the_files_that_references_name(self, place: Place, tmp_path: Path) -> None:
        file = write(tmp_path, place.section, {SECRET_NAME: place.put("secret", SECRET)})
        assert layers.load(file).isolation.private_paths == [str(file), str(tmp_path / "secret")]

    def test_only_one_line_break_is_removed(self, place: Place, tmp_path: Path) -> None:
        file = write(tmp_path, place.section, {SECRET_NAME: place.put("secret", " two\nlines \n")})
        assert layers.load(file).client_secret == " two\nlines \n"

    def test_a_file_that_is_not_text_is_refused_without_its_content(self, place: Place, tmp_path: Path) -> None:
        reference = place.put("binary", "")
        (tmp_path / "binary").write_bytes(b"hush\xff\xfe")
        words = refused(write(tmp_path, place.section, {SECRET_NAME: reference})).message
        assert "the value is not text in UTF-8" in words
        assert "hush" not in words


class TestVariables(StoreContract):
    @pytest.fixture
    def place(self, monkeypatch: pytest.MonkeyPatch) -> Place:
        return VariablesPlace(monkeypatch)

    @pytest.mark.feature("T3.private")
    def test_no_job_gets_the_variables_that_references_name(self, place: Place, tmp_path: Path) -> None:
        config = layers.load(write(tmp_path, place.section, {SECRET_NAME: place.put("secret", SECRET)}))
        assert config.secret_variables == ["CREW_SECRET"]


class TestPrograms(StoreContract):
    @pytest.fixture
    def place(self, tmp_path: Path) -> Place:
        return ProgramsPlace(tmp_path)

    @pytest.mark.feature("T3.hidden")
    def test_the_arguments_of_a_program_are_in_no_error(self, place: Place, tmp_path: Path) -> None:
        reference = f"exec:{json.dumps([sys.executable, '-c', 'raise SystemExit(3)', SECRET])}"
        words = refused(write(tmp_path, place.section, {SECRET_NAME: reference})).message
        assert "ended with exit status 3" in words
        assert SECRET not in words

    @pytest.mark.feature("T3.hidden")
    def test_a_program_gets_no_setting_of_terracrew(
        self, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("TERRACREW_TOKEN", "hush")
        script = "import os; print([name for name in os.environ if name.startswith('TERRACREW_')])"
        reference = f"exec:{json.dumps([sys.executable, '-c', script])}"
        assert layers.load(write(tmp_path, place.section, {SECRET_NAME: reference})).client_secret == "[]"
