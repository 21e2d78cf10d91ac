"""The forge gets one status that counts, few others, and one comment that is never too long."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from terracrew.server.pull_requests import reporting
from terracrew.server.pull_requests.reporting import ForgeReport, ShownModule


def module(path: str, state: str = "changes", size: int = 1, **fields: object) -> ShownModule:
    words = {"path": path, "state": state, "size": size, "url": f"https://crew.example.com/jobs/{path}"} | fields
    return msgspec.convert(words, ShownModule)


def report(*modules: ShownModule, **fields: object) -> ForgeReport:
    known = {
        "group_id": "grp_1",
        "head_commit": "a" * 40,
        "base_branch": "main",
        "url": "https://crew.example.com/pr/1",
    }
    return msgspec.structs.replace(msgspec.convert(known | {"modules": []}, ForgeReport), modules=modules, **fields)


@pytest.mark.parametrize(
    ("found", "state", "words"),
    [
        (report(), "success", "no module is touched"),
        (report(module("a"), module("b", "no_changes")), "success", "1 module changes"),
        (report(module("a", "no_changes"), module("b", "no_changes")), "success", "2 modules without changes"),
        (report(module("a"), module("b", "running")), "pending", "1 of 2 modules finished"),
        (report(module("a", "failed"), module("b", "waiting")), "failure", "1 of 2 modules failed, 1 not finished: a"),
        (report(module("a", "needs_approval")), "pending", "1 module waits for approval"),
        (report(module("a"), problem="it conflicts with main"), "failure", "it conflicts with main"),
        (report(problem="nobody has allowed it", is_waiting=True), "pending", "nobody has allowed it"),
        (
            report(module("a", is_to_apply=True), apply="on_command_then_merge"),
            "pending",
            "1 module to apply before the merge: comment `terracrew apply`",
        ),
        (report(module("a", "applied"), apply="on_command_then_merge"), "success", "1 module applied"),
    ],
)
def test_one_status_says_whether_the_pull_request_is_as_it_should_be(
    found: ForgeReport, state: str, words: str
) -> None:
    status = reporting.aggregate(found)
    assert (status.context, status.state, status.description) == ("terracrew", state, words)


def test_only_failed_and_changed_modules_have_a_status_and_those_that_had_one() -> None:
    found = report(module("same", "no_changes"), module("once", "no_changes"), module("bad", "failed"), module("new"))
    statuses = reporting.of_modules(found, {"terracrew/once"})
    assert [each.context for each in statuses] == ["terracrew/bad", "terracrew/new", "terracrew/once"]
    many = report(*(module(f"m{at}") for at in range(500)))
    assert len(reporting.of_modules(many, ())) == reporting.MAX_MODULE_STATUSES


def test_five_hundred_modules_fit_into_one_comment_with_the_largest_changes_first() -> None:
    modules = [module(f"m{at:03}", size=at, counts=f"{at} to add", resources=["create  a.b"] * 40) for at in range(500)]
    text = reporting.comment(report(*modules), 60_000)
    assert len(text) <= 60_000
    assert text.index("m499") < text.index("m498") < text.index("m400")
    assert "300 modules more: [the page of this pull request](https://crew.example.com/pr/1) shows all." in text


def test_texts_of_others_are_shown_and_mean_nothing() -> None:
    hostile = "@everyone [click](https://evil.example.com) <img src=x> `a` | b\n# title\x1b[31m"
    text = reporting.comment(
        report(module("a", "failed", reason=hostile), module("b", resources=["create  x```\n@team <b>"])), 60_000
    )
    assert "@everyone" not in text
    assert "https://evil" not in text
    assert "<img" not in text
    assert "\n# title" not in text
    assert text.count("```") == 2


@given(
    modules=st.lists(
        st.builds(
            module,
            st.text(min_size=1, max_size=60),
            st.sampled_from(["changes", "failed", "running", "no_changes", "stale"]),
            st.integers(0, 5000),
            reason=st.text(max_size=300),
            counts=st.text(max_size=80),
            resources=st.lists(st.text(max_size=200), max_size=40),
        ),
        max_size=60,
    ),
    limit=st.integers(5_000, 65_536),
)
def test_the_comment_is_never_too_long(modules: list[ShownModule], limit: int) -> None:
    text = reporting.comment(report(*modules), limit)
    assert len(text) <= limit
    assert text.startswith(reporting.marker("grp_1"))


@pytest.mark.feature("P3.plans")
def test_what_policies_stop_is_a_failure_and_what_they_say_fits_into_the_comment() -> None:
    found = report(
        module("a", stops=["The policy `x` (version 1) denies this plan: " + "y" * 2_000]),
        module("b", remarks=[f"The policy `z{number}` (version 1) warns: @all" for number in range(50)]),
    )
    status = reporting.aggregate(found)
    assert (status.state, status.description) == ("failure", "policies stop 1 module of 2: a")
    states = {each.context: each.state for each in reporting.of_modules(found, [])}
    assert states == {"terracrew/a": "failure", "terracrew/b": "success"}
    for size in (1_500, 4_000, 60_000):
        text = reporting.comment(found, size)
        assert len(text) <= size
        assert "@all" not in text
    assert "- `a`: The policy" in reporting.comment(found, 60_000)
