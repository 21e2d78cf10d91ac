"""The person who operates the site: looks at jobs that wait and acts by their reason, but only on what is known for sure.

An approval after a fence is given, and "it is gone" is said, only when no process of the older attempts is left on any
host and nobody is inside the module's mutating section. So no overlap can be blamed on a person.
"""

import random
import threading
from typing import Any

from terracrew.client.http import segment
from terracrew.errors import Conflict, Locked, NotFound, TerracrewError
from tests.chaos import witness
from tests.chaos.site import Site, reason_code
from tests.chaos.work import Work

_EVERY = 1.0


class Person:
    def __init__(self, site: Site, work: Work, rng: random.Random) -> None:
        self._site, self._work, self._random = site, work, rng
        self._ended = threading.Event()
        self._thread = threading.Thread(target=site.timeline.watched("the person", self._watch), daemon=True)
        self._api = site.api(timeout=10)
        self.acts: dict[str, int] = {}
        self.is_patient = True
        """During the storm a person does not see everything at once, sometimes declines, and cancels."""

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join(60)

    def _watch(self) -> None:
        while not self._ended.wait(_EVERY):
            try:
                self.step()
            except TerracrewError as error:
                self._count(f"not answered ({error.code})")

    def step(self) -> None:
        for listed in self._api.list("/jobs", active=True, limit=200):
            if self._ended.is_set():
                return
            if self.is_patient and self._random.random() < 0.01:
                self._cancel(listed)
            elif not self.is_patient or self._random.random() < 0.3:
                self._look_at(listed)
        for path in self._work.modules:
            if not self.is_patient or self._random.random() < 0.1:
                self._clear_quarantine(path)

    def _look_at(self, listed: dict[str, Any]) -> None:
        reason = reason_code(listed)
        if listed["status"] == "AWAITING_APPROVAL":
            if not self._is_quiet(listed):
                return self._count("waited: an older attempt is not over")
            act = "decline" if self.is_patient and self._random.random() < 0.1 else "approve"
            return self._act(
                f"/jobs/{listed['id']}/{act}", {"plan": listed["plan_attempt"]}, f"{act} ({reason})", listed
            )
        if reason == "lost" and self._random.random() < 0.5 and self._is_quiet(listed):
            # Not always before the lease runs out, so that both ways are taken.
            return self._act(f"/jobs/{listed['id']}/attempts/{listed['attempt']}/gone", None, "it is gone", listed)
        return None

    def _is_quiet(self, listed: dict[str, Any]) -> bool:
        """Whether nothing of this module can still change anything, whoever was told what."""
        path = listed["module_path"]
        if witness.is_locked(self._site.witnesses, self._work.modules[path]):
            return False
        jobs = {job["id"] for job in self._api.list("/jobs", module=path, limit=200)}
        return not any(one.attempt.rpartition(".")[0] in jobs for one in self._site.members() if one.attempt)

    def _cancel(self, listed: dict[str, Any]) -> None:
        mode = self._random.choice(["after_step", "interrupt", "kill"])
        self._act(f"/jobs/{listed['id']}/cancel", {"mode": mode}, f"cancel ({mode})", listed)

    def _clear_quarantine(self, path: str) -> None:
        states = list(self._api.list(f"/modules/{segment(path)}/states", limit=200))
        newest = max((one["serial"] for one in states if one["status"] == "current"), default=0)
        for state in sorted((one for one in states if one["status"] == "quarantined"), key=lambda one: one["serial"]):
            act = "adopt" if state["serial"] > newest else "discard"
            self._act(f"/states/{state['id']}/{act}", None, act, {"id": state["job_id"], "attempt": state["attempt"]})
            newest = max(newest, state["serial"])

    def _act(self, path: str, body: Any, name: str, job: dict[str, Any]) -> None:
        try:
            self._api.post(path, body)
        except (Conflict, Locked, NotFound) as error:
            return self._count(f"{name}: {error.code}")
        self._site.timeline.add("act", name, f"{job['id']}.{job['attempt']}")
        return self._count(name)

    def _count(self, act: str) -> None:
        self.acts[act] = self.acts.get(act, 0) + 1
