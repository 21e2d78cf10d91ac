"""Plays Fargate, or a machine of EC2, on the emulator of ECS, which runs nothing: each task is a real container of the Docker daemon.

moto answers the requests of the dispatcher and checks their parameters. The agent gives its tasks the life that they have in
ECS: they are provisioned, run the container's first process with the overrides of the request, get SIGTERM and later SIGKILL
when they are stopped, and are stopped only when their container has ended, with its exit code and the reasons of ECS.
"""

import contextlib
import importlib
import json
import subprocess
import threading
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

ACCOUNT, REGION = "123456789012", "eu-central-1"
FAMILY, CONTAINER = "executor", "executor"
STOP_TIMEOUT_SECONDS = 120
_LOOK_SECONDS = 0.1
_ENTRYPOINT = ["--entrypoint", "python3"]
_ARGUMENTS = ["-P", "-m", "terracrew.executor.container"]
_ATTEMPT_TAG = "terracrew:attempt"


class EcsAgent:
    """A cluster of the emulator with a task definition, and the machine that its tasks run on."""

    def __init__(self, endpoint: str, docker: str = "", image: str = "", *, has_machine: bool = False) -> None:
        """Without a daemon and an image, tasks do not run. With a machine of EC2, they run on it instead of on Fargate."""
        self._docker, self._image, self._has_machine = ["docker", "--host", docker], image, has_machine
        self.cluster = f"crew-{uuid.uuid4().hex[:12]}"
        self.is_capable = True
        """Whether tasks get a machine. Without one, they stay in PROVISIONING."""
        self.before_run: Callable[[Any], None] = lambda _task: None
        """Called with each task before its container runs; the task of a test may end there."""
        self.user = "0:0"
        """The user of the task definition."""
        self.is_placed = True
        """Whether RunTask starts anything."""
        self.is_answering = True
        """Whether DescribeTasks is answered. Otherwise it fails as an API does that is unavailable."""
        self.refused_calls = 0
        self.largest_description = 0
        """The most tasks that were described in one request."""
        self._stopping: set[str] = set()
        self._running: dict[str, threading.Thread] = {}
        self._is_closed = threading.Event()
        self._backend: Any = importlib.import_module("moto.ecs.models").ecs_backends[ACCOUNT][REGION]
        self._make(endpoint)
        self._original = self._backend.run_task, self._backend.stop_task, self._backend.describe_tasks
        self._backend.run_task, self._backend.stop_task = self._run_task, self._stop_task
        self._backend.describe_tasks = self._describe_tasks
        self._looking = threading.Thread(target=self._look, daemon=True)
        self._looking.start()

    def _make(self, endpoint: str) -> None:
        manager: Any = importlib.import_module("moto.moto_api").state_manager
        manager.set_transition("ecs::task", {"progression": "manual", "times": 1 << 30})
        boto3: Any = importlib.import_module("boto3")
        session = boto3.session.Session("test", "test", region_name=REGION)
        ecs, ec2 = (session.client(name, endpoint_url=endpoint) for name in ("ecs", "ec2"))
        ecs.create_cluster(clusterName=self.cluster)
        ecs.register_task_definition(
            family=FAMILY,
            networkMode="bridge" if self._has_machine else "awsvpc",
            requiresCompatibilities=["EC2" if self._has_machine else "FARGATE"],
            cpu="256",
            memory="512",
            containerDefinitions=[
                {"name": CONTAINER, "image": "test", "cpu": 256, "memory": 512, "stopTimeout": STOP_TIMEOUT_SECONDS}
            ],
        )
        if self._has_machine:
            self._add_machine(ecs, ec2)
        self.subnet = ec2.describe_subnets()["Subnets"][0]["SubnetId"]
        self.security_group = ec2.describe_security_groups()["SecurityGroups"][0]["GroupId"]

    def _add_machine(self, ecs: Any, ec2: Any) -> None:
        """Let a machine of EC2 join the cluster, as its agent does."""
        image = ec2.describe_images()["Images"][0]["ImageId"]
        [made] = ec2.run_instances(ImageId=image, MinCount=1, MaxCount=1)["Instances"]
        document = json.dumps({"instanceId": made["InstanceId"]})
        ecs.register_container_instance(cluster=self.cluster, instanceIdentityDocument=document)

    # ---- what tests look at

    @property
    def tasks(self) -> dict[str, Any]:
        """The tasks of the cluster by their ARN, as the emulator keeps them."""
        return self._backend.tasks.get(self.cluster, {})

    def task_of(self, attempt: str) -> Any:
        """The last task of an attempt."""
        return [task for task in self.tasks.values() if _tags(task).get(_ATTEMPT_TAG) == attempt][-1]

    def is_running(self, attempt: str) -> bool:
        return any(
            self._inspect(task.id).get("Running", False)
            for task in self.tasks.values()
            if _tags(task).get(_ATTEMPT_TAG) == attempt
        )

    def executor_pid(self, attempt: str) -> int:
        """The executor as this machine numbers it: the only child of the container's first process."""
        first = self._inspect(self.task_of(attempt).id)["Pid"]
        return int(Path(f"/proc/{first}/task/{first}/children").read_text().split()[0])

    def first_pid(self, attempt: str) -> int:
        return int(self._inspect(self.task_of(attempt).id)["Pid"])

    def stop(self, attempt: str, reason: str, code: str) -> None:
        """Stop a task as ECS itself does: it gets SIGTERM, and SIGKILL when its time to stop is over."""
        task = self.task_of(attempt)
        task.desired_status, task.stopped_reason, task.stop_code = "STOPPED", reason, code

    def forget(self, attempt: str) -> None:
        """Forget a stopped task, as ECS does after an hour."""
        task = self.task_of(attempt)
        del self.tasks[task.task_arn]

    def close(self) -> None:
        self._is_closed.set()
        self._looking.join()
        self._backend.run_task, self._backend.stop_task, self._backend.describe_tasks = self._original
        for task in list(self.tasks.values()):
            subprocess.run([*self._docker, "rm", "--force", task.id], capture_output=True, check=False)
        for thread in self._running.values():
            thread.join()

    # ---- what ECS does

    def _run_task(self, cluster: str, *arguments: Any) -> list[Any]:
        if not self.is_placed:
            return []
        made = self._original[0](cluster, *arguments)
        for task in made:
            task.last_status = "PROVISIONING"
            task.containers[0].exitCode = None
        return made

    def _stop_task(self, cluster: str, name: str, reason: str) -> Any:
        assert cluster == self.cluster
        task = self.tasks[name]
        if task.last_status != "STOPPED":
            task.desired_status, task.stopped_reason, task.stop_code = "STOPPED", reason, "UserInitiated"
        return task

    def _describe_tasks(self, cluster: str, names: list[str]) -> list[Any]:
        if not self.is_answering:
            self.refused_calls += 1
            raise RuntimeError("the API is unavailable")
        self.largest_description = max(self.largest_description, len(names))
        return self._original[2](cluster, names)

    def _look(self) -> None:
        while not self._is_closed.wait(_LOOK_SECONDS):
            for task in list(self.tasks.values()):
                if task.last_status == "PROVISIONING" and task.desired_status == "STOPPED":
                    task.last_status = "STOPPED"
                elif task.last_status == "PROVISIONING" and self.is_capable and task.id not in self._running:
                    self._running[task.id] = threading.Thread(target=self._live, args=(task,), daemon=True)
                    self._running[task.id].start()
                elif (
                    task.last_status == "RUNNING" and task.desired_status == "STOPPED" and task.id not in self._stopping
                ):
                    self._stopping.add(task.id)
                    stop = [*self._docker, "stop", "--time", str(STOP_TIMEOUT_SECONDS), task.id]
                    subprocess.Popen(stop, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def _live(self, task: Any) -> None:
        self.before_run(task)
        if task.last_status == "STOPPED":
            return
        [override] = task.overrides["containerOverrides"]
        variables = [f"--env={each['name']}={each['value']}" for each in override["environment"]]
        run = [
            *self._docker,
            "run",
            "--detach",
            "--name",
            task.id,
            "--network",
            "host",
            "--user",
            self.user,
            *_ENTRYPOINT,
        ]
        # Fargate gives containers these of Docker's capabilities, and a root that can be written to.
        subprocess.run(
            [*run, *variables, self._image, *_ARGUMENTS, *override["command"]], check=True, capture_output=True
        )
        task.last_status = task.containers[0].last_status = "RUNNING"
        subprocess.run([*self._docker, "wait", task.id], capture_output=True, check=False)
        state = self._inspect(task.id)
        container = task.containers[0]
        if state:  # otherwise the test has ended
            container.exitCode = state["ExitCode"]
            if state["OOMKilled"]:
                container.reason = "OutOfMemoryError: Container killed due to memory usage"
        if task.desired_status != "STOPPED":
            task.stop_code, task.stopped_reason = "EssentialContainerExited", "Essential container in task exited"
        task.desired_status, container.last_status = "STOPPED", "STOPPED"
        task.last_status = "STOPPED"

    def logs(self, attempt: str) -> str:
        """What the containers of an attempt printed."""
        found = [each.id for each in self.tasks.values() if _tags(each).get(_ATTEMPT_TAG) == attempt]
        return "".join(
            subprocess.run([*self._docker, "logs", each], capture_output=True, text=True, check=False).stdout
            + subprocess.run([*self._docker, "logs", each], capture_output=True, text=True, check=False).stderr
            for each in found
        )

    def _inspect(self, name: str) -> dict[str, Any]:
        found = subprocess.run([*self._docker, "container", "inspect", name], capture_output=True, check=False)
        with contextlib.suppress(ValueError, IndexError):
            return json.loads(found.stdout)[0]["State"]
        return {}


def _tags(task: Any) -> dict[str, str]:
    return {each["key"]: each["value"] for each in task.tags}
