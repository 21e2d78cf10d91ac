"""Drives the demo: installs an engine, starts a server, runs the samples, shows how far they are and checks how each ended."""

import os
import queue
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import click

from terracrew.api.access import Link
from terracrew.api.job_views import JobListed, JobView
from terracrew.api.jobs import Job, JobStatus, NewJob
from terracrew.api.pages import Page
from terracrew.cli.commands.engine import showing_progress
from terracrew.cli.commands.job import follow
from terracrew.cli.printing import output
from terracrew.client.http import Api
from terracrew.demo import samples
from terracrew.demo.git_server import ServedRepository
from terracrew.demo.machine import Machine
from terracrew.demo.samples import SAMPLES, Sample
from terracrew.errors import TerracrewError, Unavailable
from terracrew.protocol.spec import JobType
from terracrew.wording.durations import duration


class Stages:
    """Numbered stages, each with the time that it took."""

    def __init__(self, count: int) -> None:
        self._count, self._number = count, 0
        self._started = time.monotonic()

    def begin(self, title: str) -> None:
        self._number += 1
        self._started = time.monotonic()
        click.echo(f"{click.style(f'[{self._number}/{self._count}]', dim=True)} {click.style(title, bold=True)}")

    def done(self, words: str) -> None:
        took = click.style(duration(time.monotonic() - self._started, exact=True), dim=True)
        click.echo(f"      {click.style('✓', fg='green')} {words}  {took}")


class Lines:
    """Writes one job's log to the file, with the name of its module before each line."""

    def __init__(self, name: str, width: int, file: TextIO) -> None:
        self._prefix = name.ljust(width) + " │ "
        self._file = file
        self._rest = ""

    def write(self, text: str) -> None:
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            # A line that sets a colour and does not end it must not colour its neighbours.
            self._file.write(f"{self._prefix}{line}" + ("\x1b[0m" if "\x1b[" in line else "") + "\n")
        self._file.flush()

    def finish(self) -> None:
        if self._rest:
            self.write("\n")


_JOBS_TIMEOUT_SECONDS = 600.0
_News = tuple[Sample, str | JobView | TerracrewError]


def run(machine: Machine, repository: ServedRepository) -> bool:
    """Run the demo up to the end of the last job. Return whether each sample ended as expected."""
    from terracrew.toolchains import install

    stages = Stages(4)
    stages.begin("Engine: OpenTofu, in a cache outside the checkout")
    with showing_progress() as report:
        found = install.install("tofu", report=report)
    stages.done(f"OpenTofu {found.version}")

    stages.begin("Server, with an embedded database and a built-in runner")
    machine.start(repository.environment)
    api = machine.api()
    stages.done(f"ready at {machine.url}, data in {machine.directory}")

    stages.begin(f"Modules: uploaded, and one from {repository.url}")
    samples.ensure(api, repository.url)
    stages.done(", ".join(sample.path for sample in SAMPLES))

    stages.begin(f"Jobs: what OpenTofu prints goes to {machine.job_log}")
    with machine.open_job_log() as file:
        ended = _run_jobs(api, file)
    asking = sum(job.status is JobStatus.AWAITING_APPROVAL for _, job in ended)
    stages.done(f"{len(ended) - asking} jobs ended" + (f", {asking} waits for you" if asking else ""))
    return _summary(ended)


def invite(machine: Machine) -> None:
    """Print how to open the dashboard, use the command line and stop the demo."""
    api = machine.api()
    link = f"{api.post('/me/link', None, Link).link}?enter=true&next=/dashboard/jobs"
    asking = next((job for sample in SAMPLES if sample.needs_approval and (job := _waiting(api, sample))), None)
    output.facts(
        [
            ("dashboard", link),
            ("", "this link logs you in once, without a password, on this machine only"),
            ("command line", f"{_program()} job list   (in another terminal)"),
            ("to approve", asking and f"{_program()} job approve {asking.number}"),
            ("logs", f"{machine.job_log} (jobs), {machine.log} (server)"),
            ("to stop", "Ctrl-C"),
        ]
    )


def _program() -> str:
    """Return the command as it can be typed here: in a checkout, it is not on PATH."""
    return "terracrew" if shutil.which("terracrew") else os.path.relpath(Path(sys.executable).with_name("terracrew"))


def _run_jobs(api: Api, file: TextIO) -> list[tuple[Sample, JobView]]:
    """Run all samples at once. One thread per job reads; only this thread writes to the terminal and the file."""
    news: queue.Queue[_News] = queue.Queue()
    width = max(len(sample.path) for sample in SAMPLES)
    lines = {sample.path: Lines(sample.path, width, file) for sample in SAMPLES}
    for sample in SAMPLES:
        threading.Thread(target=_run_job, args=(api, sample, news), name=sample.path, daemon=True).start()
    ended: list[tuple[Sample, JobView]] = []
    for sample, what in _until(news, len(SAMPLES)):
        match what:
            case str():
                lines[sample.path].write(what)
            case TerracrewError():
                raise what
            case JobView() as job:
                lines[sample.path].finish()
                click.echo(f"      {sample.path.ljust(width)}  {job.status}")
                ended.append((sample, job))
                _check_users(sample, job)
    return ended


def _check_users(sample: Sample, job: JobView) -> None:
    """Raise if another sample waits for an output of this one, which its job has not made."""
    waiting = [each.path for each in SAMPLES for used in each.uses.values() if used.startswith(f"{sample.path}:")]
    if waiting and job.status != sample.expected:
        raise Unavailable(f"{', '.join(waiting)} waits for {sample.path}, whose job is {job.status}: {job.message}")


def _run_job(api: Api, sample: Sample, news: "queue.Queue[_News]") -> None:
    def write(text: str) -> None:
        news.put((sample, text))

    try:
        made = _waiting(api, sample) or follow.queue(api, sample.path, NewJob(JobType.APPLY))
        ended = follow.follow(api, made.id, write=write, news=False, stop_at_approval=sample.needs_approval)
        news.put((sample, ended))
    except TerracrewError as error:
        news.put((sample, error))


def _waiting(api: Api, sample: Sample) -> Job | None:
    """Return the job of an earlier demo that still waits for approval, if any, so that no second one is queued."""
    status = JobStatus.AWAITING_APPROVAL
    found = api.get("/jobs", Page[JobListed], module=sample.path, status=status, limit=1).items
    return found[0] if found else None


def _until(news: "queue.Queue[_News]", jobs: int) -> Iterator[_News]:
    deadline = time.monotonic() + _JOBS_TIMEOUT_SECONDS
    while jobs:
        try:
            sample, what = news.get(timeout=max(0, deadline - time.monotonic()))
        except queue.Empty:
            raise Unavailable(f"{jobs} jobs have not ended within {_JOBS_TIMEOUT_SECONDS:g} s") from None
        jobs -= isinstance(what, JobView)
        yield sample, what


def _summary(ended: list[tuple[Sample, JobView]]) -> bool:
    order = {sample.path: position for position, sample in enumerate(SAMPLES)}
    rows = [
        (
            sample.path,
            sample.description,
            job.status,
            "✓" if job.status == sample.expected else f"✗ expected {sample.expected}: {job.message}",
            output.duration(job.created_at, job.finished_at),
        )
        for sample, job in sorted(ended, key=lambda one: order[one[0].path])
    ]
    click.echo()
    output.table(("MODULE", "WHAT IT DOES", "ENDED", "", "TOOK"), rows, empty="")
    click.echo()
    return all(job.status == sample.expected for sample, job in ended)
