"""Which server is asked, and with which token: flags, environment, profile, and a server of this machine."""

import os
import stat
from pathlib import Path

import pytest

from terracrew.api.access import Me
from terracrew.cli.connection import local, profiles
from terracrew.cli.connection.target import Target
from terracrew.errors import Invalid
from tests.cli.answers import answer
from tests.cli.conftest import Terracrew
from tests.client.scripted_server import ScriptedServer


def store(url: str, token: str, name: str = "default") -> None:
    profiles.save(profiles.load().with_profile(name, url=url, token=token))


def test_flags_go_before_the_environment_and_that_before_the_profile(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert Target().resolve().url == "http://127.0.0.1:7400"
    store("http://profile", "from-profile")
    assert (Target().resolve().url, Target().resolve().token) == ("http://profile", "from-profile")
    monkeypatch.setenv("TERRACREW_URL", "http://environment/")
    monkeypatch.setenv("TERRACREW_TOKEN", "from-environment")
    assert (Target().resolve().url, Target().resolve().token) == ("http://environment", "from-environment")
    file = tmp_path / "token"
    file.write_text("from-file\n")
    flags = Target("http://flag", None, file).resolve()
    assert (flags.url, flags.token) == ("http://flag", "from-file")
    store("http://named", "from-named", "other")
    named = Target(profile="other").resolve()
    assert (named.url, named.token) == ("http://named", "from-named")


def test_a_stored_token_goes_only_to_the_server_it_was_stored_for() -> None:
    store("https://mine.example", "secret")
    assert Target("https://evil.example").resolve().token == ""
    assert Target("https://mine.example/").resolve().token == "secret"


def test_the_file_is_its_owners_alone_and_survives_awkward_values(home: Path) -> None:
    store("http://a", 'quo"te\\and ü')
    assert profiles.path() == home / ".config/terracrew/config.toml"
    assert stat.S_IMODE(profiles.path().stat().st_mode) == 0o600
    assert profiles.load().get(None) == profiles.Profile("default", "http://a", 'quo"te\\and ü')


@pytest.mark.parametrize("content", ["no toml", "profiles = 3", "[profiles.a]\ntoken = 7"])
def test_a_broken_file_is_named_and_its_secrets_are_not_quoted(content: str) -> None:
    profiles.path().parent.mkdir(parents=True)
    profiles.path().write_text(content)
    with pytest.raises(Invalid, match=r"config\.toml"):
        profiles.load()


def test_a_server_that_this_user_started_here_needs_no_setup(tmp_path: Path) -> None:
    (tmp_path / "admin.token").write_text("tcu_admin\n")
    with local.announced("http://127.0.0.1:7999", tmp_path):
        found = Target().resolve()
        assert (found.url, found.token) == ("http://127.0.0.1:7999", "tcu_admin")
        assert Target("http://localhost:7999").resolve().token == "tcu_admin"
        assert Target("http://127.0.0.1:8000").resolve().token == ""
        assert Target("http://127.0.0.1.evil.example:7999").resolve().token == ""
        assert Target("http://192.0.2.1:7999").resolve().token == ""
    assert Target().resolve().token == ""


def test_the_token_of_a_server_that_is_gone_is_not_given_to_whoever_listens_there_now(
    tmp_path: Path, home: Path
) -> None:
    (tmp_path / "admin.token").write_text("tcu_admin")
    with local.announced("http://127.0.0.1:7999", tmp_path):
        note = next((home / ".local/state/terracrew/servers").glob("*.json"))
        # The same process id, but of a process that started at another time: the id was reused.
        note.write_bytes(note.read_bytes().replace(b'"started":"', b'"started":"9'))
        assert Target("http://127.0.0.1:7999").resolve().token == ""


@pytest.mark.feature("E1.commands")
def test_login_checks_the_token_and_stores_it(
    terracrew: Terracrew, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TERRACREW_TOKEN")
    terracrew("login", "--token-stdin", stdin="tcu_wrong\n")
    assert terracrew.code == 4  # the scripted server knows no /me yet
    assert not profiles.path().exists()
    server.on("GET /api/v1/me", answer(Me, name="ada"))
    terracrew("login", "--token-stdin", stdin="tcu_right\n")
    assert terracrew.code == 0
    assert "as ada" in terracrew.out
    assert server.asked[-1].headers["Authorization"] == "Bearer tcu_right"
    monkeypatch.delenv("TERRACREW_URL")
    assert (Target().resolve().url, Target().resolve().token) == (server.url, "tcu_right")


@pytest.mark.feature("E1.commands")
def test_config_shows_where_things_come_from_but_never_the_token(
    terracrew: Terracrew, monkeypatch: pytest.MonkeyPatch
) -> None:
    terracrew("config", "set", "url", "http://127.0.0.1:7411/")
    terracrew("config", "set", "token", stdin="tcu_0123456789abcdef\n")
    shown = terracrew("config", "show")
    assert "http://127.0.0.1:7411  (profile default)" in shown
    assert "tcu_0123…" in shown
    assert "456789abcdef" not in shown + terracrew("config", "show", "--json")
    assert terracrew("config", "path").strip() == str(profiles.path())
    terracrew("config", "set", "token", "on-the-command-line")
    assert terracrew.code == 2
    terracrew("config", "set", "profile", "nowhere")
    assert terracrew.code == 2
    assert os.environ.get("TERRACREW_TOKEN") is None
