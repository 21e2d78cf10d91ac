"""What Pulumi's commands find in their environment, and what they do not."""

import base64
from pathlib import Path

import pytest

from terracrew.executor.engines.pulumi import environment

pytestmark = pytest.mark.feature("J4.pulumi")
KEY = bytes(range(32))


def test_a_module_cannot_lead_the_state_elsewhere_or_save_less_of_it() -> None:
    hostile = {
        "PULUMI_BACKEND_URL": "https://elsewhere.example",
        "PULUMI_SKIP_CHECKPOINTS": "true",
        "PULUMI_DIY_BACKEND_GZIP": "true",
        "PULUMI_SELF_MANAGED_STATE_GZIP": "true",
        "PULUMI_STACK": "other",
        "PULUMI_HOME": "/home/x/.pulumi",
        "KEPT": "1",
    }
    found = environment.with_state(environment.of_commands(hostile, "/home", "/bin"), "file:///state", KEY)
    assert found["PULUMI_BACKEND_URL"] == "file:///state"
    assert found["PULUMI_HOME"] == "/home"
    assert found["KEPT"] == "1"
    assert not {"PULUMI_SKIP_CHECKPOINTS", "PULUMI_DIY_BACKEND_GZIP", "PULUMI_STACK"} & found.keys()
    assert "PULUMI_SELF_MANAGED_STATE_GZIP" not in found


@pytest.mark.feature("J15.encrypted")
def test_secrets_are_encrypted_under_the_key_of_the_module_unless_it_has_a_passphrase() -> None:
    found = environment.with_state({}, "file:///state", KEY)
    assert found["PULUMI_CONFIG_PASSPHRASE"] == base64.b64encode(KEY).decode()
    for name in environment.PASSPHRASE_VARIABLES:
        own = environment.with_state({name: "theirs"}, "file:///state", KEY)
        assert [value for variable, value in own.items() if "PASSPHRASE" in variable] == ["theirs"]


def test_plug_ins_are_downloaded_only_if_that_is_allowed() -> None:
    name = environment.DOWNLOADS_VARIABLE
    assert environment.of_commands({}, "/home", "/bin")[name] == "true"
    assert environment.of_commands({name: "false"}, "/home", "/bin")[name] == "false"


def test_the_programs_beside_pulumi_are_found_first() -> None:
    assert environment.of_commands({"PATH": "/usr/bin"}, "/home", "/opt/pulumi")["PATH"] == "/opt/pulumi:/usr/bin"
    assert environment.of_commands({}, "/home", "/opt/pulumi")["PATH"] == "/opt/pulumi"


def test_an_attempt_has_links_to_the_plug_ins_of_the_operator(tmp_path: Path) -> None:
    plugin = tmp_path / "operator" / "plugins" / "resource-aws-v6.0.0"
    plugin.mkdir(parents=True)
    (plugin / "pulumi-resource-aws").write_text("x")
    half = plugin.with_name("resource-gcp-v8.0.0")
    half.mkdir()
    half.with_name(f"{half.name}.partial").touch()
    operators = environment.operator_home({"PULUMI_HOME": str(tmp_path / "operator"), "HOME": "/home/x"})
    environment.provide_plugins(tmp_path / "own", operators)
    assert [each.name for each in (tmp_path / "own" / "plugins").iterdir()] == [plugin.name]
    link = tmp_path / "own" / "plugins" / plugin.name / "pulumi-resource-aws"
    assert link.readlink() == plugin / "pulumi-resource-aws"
    environment.provide_plugins(tmp_path / "own", operators)  # once more, for a second environment of the same attempt


def test_the_operators_home_is_that_of_the_user_unless_a_variable_names_it() -> None:
    assert environment.operator_home({"HOME": "/home/x"}) == Path("/home/x/.pulumi")
    assert environment.operator_home({"PULUMI_HOME": "relative", "HOME": "/home/x"}) == Path("/home/x/.pulumi")
    assert environment.operator_home({}) is None
