"""The order of a run follows the references between its modules, and nothing runs after what did not succeed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from terracrew.api.group_runs import ModuleStatus, RunType
from terracrew.server.group_runs import model
from terracrew.server.group_runs.model import RunModule

pytestmark = pytest.mark.feature("J6.groups")
NAMES = "abcdefg"


def run(type_: RunType, *edges: str) -> list[RunModule]:
    """The modules of a run; the edge `b>a` says that b uses an output of a."""
    names = sorted({name for edge in edges for name in edge.split(">")})
    before = model.waits(type_, names, [(edge.split(">")[0], edge.split(">")[1]) for edge in edges if ">" in edge])
    positions = model.positions(before)
    return [RunModule("grn", name, name, positions[name], before[name]) for name in names]


@given(
    st.sets(st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES)).filter(lambda edge: edge[0] > edge[1])),
    st.sets(st.sampled_from(NAMES)),
    st.sampled_from(["APPLY", "DESTROY"]),
)
def test_a_run_ends_and_runs_each_module_once_after_what_it_waits_for(
    edges: set[tuple[str, str]], broken: set[str], type_: RunType
) -> None:
    """Invariant: a module is run if and only if everything before it has succeeded, and every run ends."""
    modules = run(type_, *NAMES, *(">".join(edge) for edge in edges))
    waits_for = {each.module_id: each.waits_for for each in modules}
    ran: list[str] = []
    step = model.next_step(modules)
    while step.ready:
        for each in step.ready:
            assert set(each.waits_for) <= set(ran) - broken
            assert each.module_id not in ran
            ran.append(each.module_id)
        done = {each.module_id for each in step.ready}
        status: dict[bool, ModuleStatus] = {True: "FAILED", False: "SUCCEEDED"}
        step = model.next_step(
            [
                RunModule("grn", each.module_id, each.path, each.position, each.waits_for, status[each.path in broken])
                if each.module_id in done
                else each
                for each in step.modules
            ]
        )
    assert step.status == ("FAILED" if broken & set(ran) else "SUCCEEDED")
    for each in step.modules:
        is_blocked = any(other not in ran or other in broken for other in waits_for[each.module_id])
        assert (each.status == "SKIPPED") == is_blocked
        assert (each.module_id in ran) != is_blocked


def test_a_destroy_is_the_other_way_round() -> None:
    assert {each.path: each.position for each in run("APPLY", "b>a", "c>b")} == {"a": 0, "b": 1, "c": 2}
    assert {each.path: each.position for each in run("DESTROY", "b>a", "c>b")} == {"a": 2, "b": 1, "c": 0}


def test_a_cycle_stops_nothing_but_itself() -> None:
    """References make no cycle; if rows did, the server would still answer."""
    assert model.positions({"a": ["b"], "b": ["a"], "c": []}) == {"c": 0, "a": 3, "b": 3}
