"""One run: build the installation, inject faults while people work, undo all faults, wait, and check the result."""

import random
import sys
import time
from pathlib import Path

import msgspec

from terracrew.errors import TerracrewError
from tests.chaos import checks, report
from tests.chaos.checks import Found, Violation
from tests.chaos.faults import Faults
from tests.chaos.installation import Installation, Plan, built
from tests.chaos.person import Person
from tests.chaos.storm import Storm
from tests.chaos.timeline import Timeline
from tests.chaos.work import Work


class Outcome(msgspec.Struct, frozen=True):
    found: Found
    violations: list[Violation]
    text: str


def run(plan: Plan, directory: Path, *, is_loud: bool = False) -> Outcome:
    rng = random.Random(plan.seed)
    timeline = Timeline(is_loud=is_loud)
    with built(plan, directory, timeline) as site:
        work = Work(site, random.Random(rng.random()))
        work.make_modules()
        person = Person(site, work, random.Random(rng.random()))
        work.start()
        person.start()
        storm = Storm(site, Faults(site, rng), rng)
        _say(f"{plan.servers} servers, {plan.runners} runners, {len(work.modules)} modules: the storm begins")
        storm.rage()
        work.stop()
        person.is_patient = False
        seconds = _settle(site)
        person.stop()
        _say(f"settled after {seconds:.0f} s; looking at what is left")
        found = checks.gather(site, work, person)
        wrong = list(checks.violations(site, work, found))
        parts = [
            report.table(site, found, wrong),
            report.summary(site, found),
            report.failures(found),
            report.unfinished(found),
            f"acts of the person: {person.acts}",
            f"requests of the person that were refused or not answered: {work.refusals}",
            f"settled {seconds:.0f} s after the last fault was undone",
            f"attempts whose number was given again, which stay with their runners: {sorted(found.left_behind)}",
            *(report.told(site, each) for each in wrong),
            f"{len(wrong)} violations",
        ]
        return Outcome(found, wrong, "\n\n".join(parts))


def _settle(site: Installation) -> float:
    """Wait until every job has ended, or as long as the plan allows."""
    if site.postgres:
        site.postgres.start()
    site.network.heal()
    began = time.monotonic()
    api = site.api(timeout=10)
    while time.monotonic() - began < site.plan.settle_seconds:
        site.restart_what_ended()
        try:
            if next(iter(api.list("/jobs", active=True)), None) is None and not any(
                one.attempt for one in site.members()
            ):
                break
        except TerracrewError:
            pass  # servers are still coming up
        time.sleep(0.5)
    return time.monotonic() - began


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
