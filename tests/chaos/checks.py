"""Checks what must hold after a chaos run; each broken rule is one violation that names the attempt."""

import io
import itertools
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from terracrew.client.address import segment
from tests.chaos import hosts, set_back, witness
from tests.chaos.installation import Installation, reason_code
from tests.chaos.lost_lists import ShownList, unlisted
from tests.chaos.made_once import Look, MadeTwice, made_twice
from tests.chaos.person import Person
from tests.chaos.set_back import SetBack
from tests.chaos.witness import Record
from tests.chaos.work import Work

TERMINAL = ("SUCCEEDED", "FAILED", "CANCELED", "DECLINED")
BY_ITSELF = ("succeeded", "failed", "canceled", "waiting")
"""Outcomes of attempts that reported their own end, so that their log is whole."""
_KILLS_ENGINES = ("kill engine", "reboot host", "replace host", "shut down host", "deliver late", "return disk")
_NUMBERED = re.compile(rb"^(?:[^\n]*\(local-exec\):[^\n]*?)?(plan|apply)-line (\d+)", re.MULTILINE)
"""At the start of a line, or where the real engine puts what a provisioner prints; it repeats all of it when that fails."""


class Violation(msgspec.Struct, frozen=True):
    rule: str
    text: str
    at: float = 0.0
    attempt: str = ""


class Found(msgspec.Struct, frozen=True):
    """Everything that the server reports after the chaos run, read once."""

    jobs: list[dict[str, Any]]
    states: dict[str, list[dict[str, Any]]]
    witnesses: list[Record]
    looks: list[Look] = []
    """What the person decided, as they wrote it down."""
    asked_to_cancel: set[str] = set()
    lists: list[ShownList] = []
    """The lists of lost resources that the person looked at before they decided."""
    set_backs: list[SetBack] = []
    """What the database has lost."""
    begun_while_held: frozenset[str] = frozenset()
    left_behind: frozenset[str] = frozenset()
    """Attempts of the time that was lost whose numbers others have got. Their directories are still on the disks of their runners."""

    @property
    def forgotten(self) -> frozenset[str]:
        """The attempts of which the database has lost something."""
        return frozenset[str]().union(*(each.attempts for each in self.set_backs))


def gather(site: Installation, work: Work, person: Person) -> Found:
    api = site.api(timeout=60)
    jobs = [api.get(f"/jobs/{listed['id']}") for listed in list(api.list("/jobs", limit=200))]
    states = {path: list(api.list(f"/modules/{segment(path)}/states", limit=200)) for path in work.modules}
    witnesses = witness.read(site.witnesses)
    with site.connection() as connection:
        held = set_back.begun_while_held(connection)
        behind = set_back.left_behind(site.set_backs, set_back.read(connection))
    behind &= {path.name for path in site.directory.glob("disk-*/**/attempts/*") if path.is_dir()}
    return Found(jobs, states, witnesses, person.looks, person.canceled, person.lists, site.set_backs, held, behind)


def violations(site: Installation, work: Work, found: Found) -> Iterator[Violation]:
    yield from all_ended(site, work, found)
    yield from no_overlap(found)
    yield from made_once(found, frozenset(work.retried))
    yield from held(found)
    yield from applied_in_order(found)
    yield from lists_name_what_was_lost(found)
    yield from states_kept(site.wiped, work.modules, found)
    yield from success_has_its_state(found)
    yield from states_in_order(found)
    yield from history(found)
    yield from only_asked_cancels(found)
    yield from logs(site, found)
    yield from no_job_lost_to_a_fault(site, found)
    yield from _no_surprise(site)


def all_ended(site: Installation, work: Work, found: Found) -> Iterator[Violation]:
    alive = hosts.attempts(site.members())
    known = {job["id"] for job in found.jobs}
    forgotten = frozenset[str]().union(*(each.jobs for each in found.set_backs))
    for job_id in work.jobs.keys() - known - forgotten:
        yield Violation("nothing lost", f"{job_id} was accepted and the server does not know it", attempt=job_id)
    for job in found.jobs:
        is_explained = _name(job) in alive or reason_code(job)
        if job["status"] not in TERMINAL and not is_explained:
            yield Violation("no stuck job", f"{_name(job)} is {job['status']} and does not say why", attempt=_name(job))
        elif job["status"] in TERMINAL and job["lock"] and job["lock"]["job_id"] == job["id"]:
            yield Violation("no lock left", f"{_name(job)} is {job['status']} and holds the lock", attempt=_name(job))


def no_job_lost_to_a_fault(site: Installation, found: Found) -> Iterator[Violation]:
    """A job may fail only if its engine was killed, its disk was full or the database forgot it, or after its fifth lost attempt."""
    killed: set[str] = set()
    full: set[str] = set()
    for entry in site.timeline.entries:
        if entry.kind == "fault" and entry.what in _KILLS_ENGINES:
            killed.update(entry.attempts)
        elif entry.kind == "fault" and entry.what == "full disk":
            full.add(entry.target.split()[0])
    for job in found.jobs:
        is_excused = (
            _name(job) in killed | found.forgotten
            or job["instance_name"] in full
            or job["message"].startswith("given up after")
        )
        if job["status"] == "FAILED" and not is_excused:
            yield Violation(
                "no job lost to a fault", f"{_name(job)} FAILED: {job['message'][:300]}", attempt=_name(job)
            )


def no_overlap(found: Found) -> Iterator[Violation]:
    """Compare both the kernel's locks and the times that both engines recorded."""
    ends = {(one.owner, one.pid): one.at for one in found.witnesses if one.what == "end"}
    starts = sorted((one for one in found.witnesses if one.what == "start"), key=lambda one: one.at)
    for one in found.witnesses:
        if one.what == "overlap":
            last = max(
                (s for s in starts if s.module == one.module and s.at <= one.at and s.pid != one.pid),
                key=lambda s: s.at,
                default=None,
            )
            other = last.owner if last else "another process"
            yield Violation("one at a time", f"{one.owner} mutates {one.module} while {other} does", one.at, one.owner)
    for first, second in (
        (a, b) for a in starts for b in starts if a.module == b.module and a.at < b.at and a.pid != b.pid
    ):
        if ends.get((first.owner, first.pid), 0) > second.at:
            text = f"{first.owner} ended its mutation of {first.module} after {second.owner} had begun"
            yield Violation("one at a time", text, second.at, second.owner)
    begun = {f"{job['id']}.{one['number']}" for job in found.jobs for one in job["attempts"] if one["begun_at"]}
    begun = begun.union(*(each.begun for each in found.set_backs))
    for one in starts:
        if one.owner not in begun:
            yield Violation("permit to mutate", f"{one.owner} mutated {one.module} without a permit", one.at, one.owner)
    seen: dict[str, Record] = {}
    for one in starts:
        first = seen.setdefault(one.plan or one.owner, one)
        is_forgotten = any(first.at < each.at < one.at and first.owner in each.begun for each in found.set_backs)
        if first.pid != one.pid and not is_forgotten:
            text = f"{one.owner} applies the plan that {first.owner} applied"
            yield Violation("a plan is applied once", text, one.at, one.owner)


def made_once(found: Found, exempt: frozenset[str] = frozenset()) -> Iterator[Violation]:
    """Report one violation for each pair of attempts, however many things the second one created again."""
    pairs: dict[tuple[str, str], list[MadeTwice]] = {}
    for one in made_twice(found.witnesses, found.looks, exempt, found.set_backs):
        pairs.setdefault((one.first.owner, one.second.owner), []).append(one)
    for several in pairs.values():
        one = several[0]
        more = f" ({len(several)} things)" if len(several) > 1 else ""
        yield Violation("made once", one.text + more, one.second.at, one.first.owner)


def held(found: Found) -> Iterator[Violation]:
    """While a module is held, only attempts change it that got their permission in the time that the database has lost."""
    for owner in found.begun_while_held.difference(*(each.begun for each in found.set_backs)):
        yield Violation("the past is not repeated", f"{owner} began while its module was held", attempt=owner)


def applied_in_order(found: Found) -> Iterator[Violation]:
    """No job changes its module after a later one of the same priority has, unless a person has approved its plan."""
    jobs = {job["id"]: job for job in found.jobs}
    starts = sorted((one for one in found.witnesses if one.what == "start" and one.job in jobs), key=lambda one: one.at)
    for first, second in itertools.combinations(starts, 2):
        later, job = jobs[first.job], jobs[second.job]
        is_behind = first.module == second.module and later["priority"] == job["priority"]
        is_approved = any(
            (look.act, look.job) == ("approve", second.job) and look.at < second.at for look in found.looks
        )
        if is_behind and later["number"] > job["number"] and not is_approved:
            text = f"job {job['number']} changed {second.module} after job {later['number']} had, and nobody was asked"
            yield Violation("in order", text, second.at, second.owner)


def lists_name_what_was_lost(found: Found) -> Iterator[Violation]:
    """A thing that exists and is in no state is in the list that a person sees, or the list says that it may be incomplete."""
    for one in unlisted(found.witnesses, found.lists, found.set_backs):
        yield Violation("lists of lost resources", one.text, one.shown.at, one.shown.owner)


def states_kept(wiped: set[str], modules: dict[str, str], found: Found) -> Iterator[Violation]:
    names = {name: path for path, name in modules.items()}
    kept = {(path, state["sha256"]) for path, states in found.states.items() for state in states}
    forgotten = frozenset[str]().union(*(each.states for each in found.set_backs))
    for one in found.witnesses:
        is_lost = one.sha256 and one.sha256 not in forgotten and (names[one.module], one.sha256) not in kept
        if is_lost and one.owner not in wiped | found.left_behind:
            text = (
                f"{one.owner} wrote serial {one.serial} of {one.module} ({one.what}), and the server does not have it"
            )
            yield Violation("no state lost", text, one.at, one.owner)


def success_has_its_state(found: Found) -> Iterator[Violation]:
    """This also covers the real engine, whose states are in no witness file."""
    written = {f"{state['job_id']}.{state['attempt']}" for states in found.states.values() for state in states}
    mutated = {one.owner for one in found.witnesses if one.what == "start"}
    for job in found.jobs:
        for one in job["attempts"]:
            owner = f"{job['id']}.{one['number']}"
            if one["outcome"] == "succeeded" and owner in mutated - written - found.forgotten:
                yield Violation("no state lost", f"{owner} succeeded, and the server has no state of it", attempt=owner)


def states_in_order(found: Found) -> Iterator[Violation]:
    for path, states in found.states.items():
        if sum(state["status"] == "current" for state in states) > 1:
            yield Violation("one current state", f"{path} has several current states")
        versions = sorted((state for state in states if state["version"]), key=lambda state: state["version"])
        for older, newer in itertools.pairwise(versions):
            if older["sha256"] == newer["sha256"]:
                continue  # an engine that is interrupted may write the same state again, which updates nothing
            if older["lineage"] == newer["lineage"] and older["serial"] >= newer["serial"]:
                owner = f"{newer['job_id']}.{newer['attempt']}"
                text = f"{path}: version {newer['version']} of {owner} has serial {newer['serial']} after {older['serial']}"
                yield Violation("no lost update", text, attempt=owner)


def history(found: Found) -> Iterator[Violation]:
    for job in found.jobs:
        attempts = job["attempts"]
        numbers = [one["number"] for one in attempts]
        if numbers != sorted(set(numbers)):
            yield Violation("history", f"{_name(job)} has the attempts {numbers}", attempt=_name(job))
        unended = [one["number"] for one in attempts if one["ended_at"] is None]
        if job["status"] in TERMINAL and unended:
            yield Violation(
                "history", f"{_name(job)} is {job['status']}, its attempts {unended} have no end", attempt=_name(job)
            )
        if sum(one["outcome"] in ("succeeded", "failed") for one in attempts) > 1:
            yield Violation("history", f"{_name(job)} has several attempts that reported an end", attempt=_name(job))
        # After a set-back, a later attempt of the time that was lost may return when the job has ended.
        own = next((one for one in attempts if one["number"] == job["attempt"]), None)
        if job["status"] == "SUCCEEDED" and (own is None or own["outcome"] != "succeeded"):
            yield Violation("history", f"{_name(job)} SUCCEEDED without an attempt that did", attempt=_name(job))


def only_asked_cancels(found: Found) -> Iterator[Violation]:
    """Only a person cancels a job: when a host shuts down, its attempts are lost, and their jobs continue elsewhere."""
    for job in found.jobs:
        if job["status"] == "CANCELED" and job["id"] not in found.asked_to_cancel:
            text = f"{_name(job)} is CANCELED ({job['message'][:200]}), and nobody asked for it"
            yield Violation("no unrequested cancel", text, attempt=_name(job))


def logs(site: Installation, found: Found) -> Iterator[Violation]:
    api = site.api(timeout=60)
    for job in found.jobs:
        for attempt in job["attempts"]:
            owner = f"{job['id']}.{attempt['number']}"
            out = io.BytesIO()
            api.download(f"/jobs/{job['id']}/log", out, attempt=attempt["number"])
            is_forgotten = owner in found.forgotten
            least = 0 if owner in site.wiped or is_forgotten else printed_lines(found, owner, attempt)
            yield from log(out.getvalue(), owner, attempt, least, has_gaps=is_forgotten)


def printed_lines(found: Found, owner: str, attempt: dict[str, Any]) -> int:
    """Return how many lines the log of an attempt has at least, according to the witnesses."""
    is_whole = attempt["outcome"] == "succeeded"
    counts = (one.printed for one in found.witnesses if one.owner == owner and (is_whole or not one.is_relayed))
    return max(counts, default=0)


def log(text: bytes, owner: str, attempt: dict[str, Any], least: int, *, has_gaps: bool = False) -> Iterator[Violation]:
    """A plan may be made again within an attempt; an apply never. A database that was set back has lost lines."""
    numbers = [(line[1], int(line[2])) for line in _NUMBERED.finditer(text)]
    planned = [number for kind, number in numbers if kind == b"plan"]
    applied = [number for kind, number in numbers if kind == b"apply"]
    rule = "logs complete and in order"
    if has_gaps:
        if applied != sorted(set(applied)):
            yield Violation(rule, f"the log of {owner} has the lines {applied}", attempt=owner)
        return
    if applied != list(range(1, len(applied) + 1)):
        after = next(number for number, there in enumerate(applied) if there != number + 1)
        yield Violation(rule, f"the log of {owner} has line {applied[after]} after {after} lines", attempt=owner)
    if any(there not in (1, before + 1) for before, there in itertools.pairwise([0, *planned])):
        yield Violation(rule, f"the log of {owner} has the lines {planned} of its plans", attempt=owner)
    if len(applied) < least and attempt["outcome"] is not None:
        text_ = f"the log of {owner} ({attempt['outcome']}) has {len(applied)} of at least {least} lines"
        yield Violation(rule, text_, attempt=owner)


def _no_surprise(site: Installation) -> Iterator[Violation]:
    for entry in site.timeline.entries:
        if entry.kind == "exit":
            yield Violation("no process ends by itself", f"{entry.target} {entry.what}", entry.at, entry.target)
    for process in (*site.servers.values(), *site.runners.values()):
        text = process.log.read_text(errors="replace")
        for trace in tracebacks(text):
            yield Violation("no unhandled exception", f"{process.name}: {trace}")


def tracebacks(text: str) -> list[str]:
    """The last line of each traceback with the line that introduced it, each pair once."""
    found: dict[str, int] = {}
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if "Traceback (most recent call last)" not in line:
            continue
        end = next(
            (i for i in range(number + 1, len(lines)) if lines[i] and not lines[i].startswith((" ", "\t", "|"))), number
        )
        key = f"{lines[number - 1][:200] if number else ''} … {lines[end][:300]}"
        key = re.sub(r"\d{4}-\d\d-\d\d[T ][\d:,.]+Z?|\b0x[0-9a-f]+|job_\w+", "…", key)
        found[key] = found.get(key, 0) + 1
    return [f"{key} ({count}×)" for key, count in found.items()]


def _name(job: dict[str, Any]) -> str:
    return f"{job['id']}.{job['attempt']}"
