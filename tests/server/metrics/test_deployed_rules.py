"""The deployed dashboard and alert rules use only figures that are measured and documented."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.server.application import metrics_headers, on_one
from tests.server.simulated_runner import SimulatedRunner

ROOT = Path(__file__).parents[3]
ALERTS = ROOT / "deploy" / "prometheus" / "alerts.yml"
DASHBOARD = ROOT / "deploy" / "grafana" / "terracrew.json"
PAGE = (ROOT / "docs" / "operations.md").read_text()
_NAME = re.compile(r"\b(?:terracrew|process)_\w+")
_MATCHER = re.compile(r"(terracrew_\w+)\{(\w+)=~?\"([^\"]+)\"\}")


def dashboard_expressions() -> list[str]:
    panels: list[dict[str, Any]] = json.loads(DASHBOARD.read_text())["panels"]
    return [target["expr"] for panel in panels for target in panel.get("targets", [])]


def alert_lines(key: str) -> Iterator[str]:
    for line in ALERTS.read_text().splitlines():
        if line.strip().startswith(f"{key}:"):
            yield line.partition(":")[2].strip()


@on_one
async def test_every_figure_that_an_alert_or_a_panel_uses_is_measured(runner: SimulatedRunner) -> None:
    await runner.app.admin.get("/api/v1/groups")
    text = (await runner.app.stranger().get("/metrics", headers=metrics_headers(runner.server))).text
    measured: dict[str, list[dict[str, str]]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            measured.setdefault(sample.name, []).append(sample.labels)
    # These have a row for each thing that has happened, and nothing has.
    measured |= {name: [] for name in ("terracrew_loop_failures_total", "terracrew_job_duration_seconds_bucket")}
    expressions = [*dashboard_expressions(), ALERTS.read_text()]
    used = {name for expression in expressions for name in _NAME.findall(expression)}
    assert len(used) > 25
    assert used - measured.keys() == set()
    for expression in expressions:
        for name, label, values in _MATCHER.findall(expression):
            there = {labels.get(label) for labels in measured[name]}
            assert set(values.split("|")) <= there, f"{name}{{{label}}} never has some of {values}"


@on_one
async def test_every_figure_of_ours_is_documented(runner: SimulatedRunner) -> None:
    text = (await runner.app.stranger().get("/metrics", headers=metrics_headers(runner.server))).text
    names = {family.name for family in text_string_to_metric_families(text) if family.name.startswith("terracrew")}
    assert {name for name in names if f"`{name}" not in PAGE} == set()


def test_every_alert_says_how_bad_it_is_and_links_to_what_to_do() -> None:
    anchors = {
        re.sub(r"[^a-z0-9 -]", "", title.lower()).strip().replace(" ", "-")
        for title in re.findall(r"^#+ (.*)$", PAGE, re.MULTILINE)
    }
    count = ALERTS.read_text().count("- alert:")
    assert count >= 15
    links = list(alert_lines("runbook_url"))
    assert len(links) == len(list(alert_lines("summary"))) == ALERTS.read_text().count("severity:") == count
    for link in links:
        page, _, anchor = link.partition("#")
        assert page == "docs/operations.md"
        assert anchor in anchors, link


@pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool (of Debian's package prometheus) is not installed"
)
def test_prometheus_accepts_the_rules() -> None:
    done = subprocess.run(["promtool", "check", "rules", str(ALERTS)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
