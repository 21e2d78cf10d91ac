"""Simulates the operator, who looks at waiting jobs and acts on their reasons, but only on what is certain.

After a fence, the operator approves, or confirms that an attempt is gone, only when no process of the older attempts is
left on any host and no process is inside the module's mutating section. So a person cannot be the cause of an overlap.
What the person was shown for each decision is recorded outside the system.
"""

import contextlib
import random
import threading
import time
from typing import Any

import msgspec

from terracrew.api.lost_resources import LostResources
from terracrew.client.address import segment
from terracrew.errors import Conflict, Locked, NotFound, TerracrewError
from tests.chaos import lost_lists, witness
from tests.chaos.installation import Installation, reason_code
from tests.chaos.lost_lists import ShownList
from tests.chaos.made_once import Look
from tests.chaos.work import Work

_EVERY = 1.0


class Person:
    def __init__(self, site: Installation, work: Work, rng: random.Random) -> None:
        self._site, self._work, self._random = site, work, rng
        self._ended = threading.Event()
        self._thread = threading.Thread(target=site.timeline.watched("the person", self._watch), daemon=True)
        self._api = site.api(timeout=10)
        self.acts: dict[str, int] = {}
        self.looks: list[Look] = []
        self.lists: list[ShownList] = []
        self.canceled: set[str] = set()
        """Jobs whose cancellation was asked for, whatever was answered."""
        self._holds: dict[tuple[str, str], float] = {}
        """When each hold was first seen. One that starts again has another start."""
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
        self._look_at_hold()
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

    def _look_at_hold(self) -> None:
        """Release a held server: sometimes single modules first, and those as untouched that nothing has changed since."""
        found = self._api.get("/hold")
        if not found["is_held"]:
            return None
        self._seen_since(found["hold"]["id"], found["hold"]["started_at"])
        hold = {"id": found["hold"]["id"], "attempt": 0}
        if self.is_patient and self._random.random() < 0.8:
            path = self._random.choice(list(self._work.modules))
            is_untouched = self._is_untouched(path)
            body = {"module": path, "is_untouched": is_untouched}
            words = "release a module as untouched" if is_untouched else "release a module"
            return self._act("/hold/release", body, words, hold)
        return self._act("/hold/release", {}, "release the server", hold)

    def _seen_since(self, hold_id: str, started_at: str) -> float:
        return self._holds.setdefault((hold_id, started_at), time.monotonic())

    def _is_untouched(self, path: str) -> bool:
        """Tell whether no attempt of a module is among those of which the database has lost something."""
        lost = {owner.rpartition(".")[0] for each in self._site.set_backs for owner in each.attempts}
        return all(job in self._work.jobs and self._work.jobs[job].module != path for job in lost)

    def _look_at(self, listed: dict[str, Any]) -> None:
        reason = reason_code(listed)
        if listed["status"] == "AWAITING_APPROVAL":
            if not self._is_quiet(listed):
                return self._count("waited: an older attempt is not over")
            if self.is_patient and self._random.random() < 0.1:
                return self._decide(listed, "decline", {"plan": listed["plan_attempt"]}, reason)
            return self._approve(listed, reason)
        if reason == "lost" and self._random.random() < 0.5 and self._is_quiet(listed):
            # Not always before the lease runs out, so that both ways are taken.
            return self._act(f"/jobs/{listed['id']}/attempts/{listed['attempt']}/gone", None, "it is gone", listed)
        return None

    def _approve(self, listed: dict[str, Any], reason: str) -> None:
        """Look at the job as it is shown now, and approve the plan that is shown, with all that the person is warned of."""
        began = time.monotonic()
        job = self._api.get(f"/jobs/{listed['id']}")
        doubts = [{"job_id": one["job_id"], "attempt": one["attempt"]} for one in job["doubts"]]
        for one in doubts:
            self._read_list(began, f"{one['job_id']}.{one['attempt']}", listed["module_path"])
        shown = frozenset(f"{one['job_id']}.{one['attempt']}" for one in doubts)
        doubtful = [one for one in job["holds"] if one["is_in_doubt"]]
        holds = [{"job_id": one["hold_id"], "attempt": 0} for one in doubtful]
        held_at = max((self._seen_since(one["hold_id"], one["started_at"]) for one in doubtful), default=0.0)
        look = Look(began, "approve", job["id"], self._work.modules[listed["module_path"]], shown, held_at)
        if job["is_plan_stale"] or (self.is_patient and self._random.random() < 0.05):
            return self._decide(job, "replan", {"plan": job["plan_attempt"]}, reason)
        return self._decide(job, "approve", {"plan": job["plan_attempt"], "doubts": doubts + holds}, reason, look)

    def _read_list(self, began: float, owner: str, path: str) -> None:
        """Write down what the list of lost resources of an attempt has, and what the state has."""
        found = self._api.pages(f"/jobs/{owner.rpartition('.')[0]}/lost-resources", LostResources)
        pages = [msgspec.to_builtins(page) for page in found]
        state: dict[str, Any] = {}
        with contextlib.suppress(NotFound):
            state = self._api.get(f"/modules/{segment(path)}/state")
        self.lists.append(lost_lists.shown(began, owner, pages, state))

    def _decide(self, job: dict[str, Any], act: str, body: Any, reason: str, look: Look | None = None) -> None:
        self._act(f"/jobs/{job['id']}/{act}", body, f"{act} ({reason})", job, look)

    def _is_quiet(self, listed: dict[str, Any]) -> bool:
        """Tell whether no process of this module can still change anything."""
        path = listed["module_path"]
        if witness.is_locked(self._site.witnesses, self._work.modules[path]):
            return False
        others = {
            job.id for job in list(self._work.jobs.values()) if job.module != path
        }  # not asked: the server may have lost jobs
        return not any(one.attempt and one.attempt.rpartition(".")[0] not in others for one in self._site.members())

    def _cancel(self, listed: dict[str, Any]) -> None:
        self.canceled.add(listed["id"])
        mode = self._random.choice(["after_step", "interrupt", "kill"])
        self._act(f"/jobs/{listed['id']}/cancel", {"mode": mode}, f"cancel ({mode})", listed)

    def _clear_quarantine(self, path: str) -> None:
        """Adopt the newest state of an attempt, unless another attempt has written a current one after it; discard others."""
        states = list(self._api.list(f"/modules/{segment(path)}/states", limit=200))
        waiting = sorted((one for one in states if one["status"] == "quarantined"), key=lambda one: one["serial"])
        current = next((one for one in states if one["status"] == "current"), None)
        for state in waiting:
            began, owner = time.monotonic(), f"{state['job_id']}.{state['attempt']}"
            is_newer = current is None or (state["serial"] > current["serial"] and self._continues(state, current))
            act = "adopt" if is_newer else "discard"
            job = {"id": state["job_id"], "attempt": state["attempt"]}
            look = Look(began, "discard", state["job_id"], self._work.modules[path], frozenset({owner}))
            self._act(f"/states/{state['id']}/{act}", None, act, job, look if act == "discard" else None)
            if is_newer:
                current = state

    def _continues(self, state: dict[str, Any], current: dict[str, Any]) -> bool:
        """Tell whether a state was made from the current one: no other attempt has written since its attempt began."""
        if (state["job_id"], state["attempt"]) == (current["job_id"], current["attempt"]):
            return True
        attempts = self._api.get(f"/jobs/{state['job_id']}")["attempts"]
        begun = next((one["begun_at"] for one in attempts if one["number"] == state["attempt"]), None)
        return state["lineage"] == current["lineage"] and begun is not None and current["created_at"] < begun

    def _act(self, path: str, body: Any, name: str, job: dict[str, Any], look: Look | None = None) -> None:
        """Send a decision. One that was not answered may have taken effect, so it counts as taken."""
        if look:
            self.looks.append(look)
        try:
            self._api.post(path, body)
        except (Conflict, Locked, NotFound) as error:
            if look:
                self.looks.remove(look)
            return self._count(f"{name}: {error.code}")
        self._site.timeline.add("act", name, f"{job['id']}.{job['attempt']}")
        return self._count(name)

    def _count(self, act: str) -> None:
        self.acts[act] = self.acts.get(act, 0) + 1
