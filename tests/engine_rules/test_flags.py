"""The arguments that people may add to the commands of an engine."""

import pytest

from terracrew.engine_rules import flags
from terracrew.errors import Invalid

pytestmark = pytest.mark.feature("J7.flags")


@pytest.mark.parametrize("flag", ["--parallel=4", "--refresh=false", "--target=urn:pulumi:a::b::c::d", "--diff"])
def test_a_flag_that_changes_nothing_that_terracrew_relies_on_is_accepted(flag: str) -> None:
    flags.check("pulumi", "plan", [flag])


@pytest.mark.parametrize(
    "flag",
    [
        "--stack=other",
        "--yes",
        "--show-secrets",
        "--save-plan=/etc/passwd",
        "--plan=x",
        "--cwd=/",
        "--remove",
        "--remote",
        "--logtostderr",
        "--verbose=11",
        "--tracing=http://elsewhere",
        "--profiling=/etc/x",
        "--disable-integrity-checking",
    ],
)
@pytest.mark.parametrize("step", ["plan", "apply", "destroy", "output"])
def test_what_terracrew_decides_about_itself_is_refused(step: str, flag: str) -> None:
    with pytest.raises(Invalid, match=rf"`{flag.partition('=')[0]}` cannot be added to {step} of pulumi"):
        flags.check("pulumi", step, [flag])


@pytest.mark.parametrize("flag", ["--target", "--message", "--parallel", "--policy-pack"])
def test_a_flag_of_pulumi_without_its_value_is_refused_because_it_would_take_the_next_argument(flag: str) -> None:
    """`--message` before `--preview-only` made the plan of a destroy a destroy."""
    with pytest.raises(Invalid, match="needs a value"):
        flags.check("pulumi", "plan", [flag])


@pytest.mark.parametrize("flag", ["-y", "-sother", "-C=/", "-yf"])
def test_a_short_flag_is_refused_because_it_can_hide_others(flag: str) -> None:
    with pytest.raises(Invalid, match="long form"):
        flags.check("pulumi", "apply", [flag])
