"""Images of server and runner that the charts start in tests: the image of executors with the start of another process, and
with what the dispatcher `kubernetes` of a runner needs.

The images of `make images` differ in their base and in how they are made, and `tests/deploy/test_images.py` starts those.
"""

import io
import subprocess
import tarfile
from pathlib import Path

from tests.machine import platforms
from tests.machine.platforms import executor_image
from tests.machine.platforms.kubernetes import Cluster

_BUILD_SECONDS = 300
_HELPER = "import sys; from terracrew.credential_helpers.kubernetes import main; sys.exit(main())"
_PREPARE = f"""
import os
for folder in ("/home/terracrew/.terracrew", "/var/lib/terracrew", "/opt/credhelpers"):
    os.makedirs(folder, exist_ok=True)
os.chown("/home/terracrew", 10001, 10001)
with open("/etc/passwd", "w") as file:
    file.write("root:x:0:0::/:/bin/sh\\nterracrew:x:10001:10001::/home/terracrew:\\n")
with open("/opt/credhelpers/kubernetes", "w") as file:
    file.write("#!/usr/local/bin/python3\\n{_HELPER}\\n")
os.chmod("/opt/credhelpers/kubernetes", 0o755)
"""
_COMMANDS = {"runner": '["runner", "start"]', "server": '["server"]'}


def image(cluster: Cluster, target: str) -> dict[str, str]:
    """Return the value `image` of a chart. The node of the cluster has the image."""
    docker = platforms.need("docker")
    base = executor_image.image(docker)
    repository, tag = f"terracrew-test/{target}", base.partition(":")[2]
    command = ["docker", "--host", docker, "build", "--network=host", "--quiet", f"--tag={repository}:{tag}", "-"]
    prepare = _PREPARE.encode().hex()
    added = executor_image.files_of_extra("kubernetes") if target == "runner" else {}
    dockerfile = f"""FROM {base}
COPY . /
RUN ["python3", "-c", "exec(bytes.fromhex('{prepare}'))"]
USER 10001:10001
WORKDIR /home/terracrew
ENTRYPOINT ["python3", "-m", "terracrew.cli"]
CMD {_COMMANDS[target]}
"""
    done = subprocess.run(
        command,
        input=_context(dockerfile, added),
        env={"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin", "DOCKER_BUILDKIT": "0"},
        capture_output=True,
        timeout=_BUILD_SECONDS,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr).decode()
    cluster.load(f"{repository}:{tag}", docker=docker)
    return {"repository": repository, "tag": tag, "pullPolicy": "Never"}


def _context(dockerfile: str, files: dict[str, Path]) -> bytes:
    """Return a build context with files at their places in the image. Its Dockerfile is not copied."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for name, text in (("Dockerfile", dockerfile), (".dockerignore", "Dockerfile\n.dockerignore\n")):
            entry = tarfile.TarInfo(name)
            entry.size = len(text.encode())
            tar.addfile(entry, io.BytesIO(text.encode()))
        for name, path in files.items():
            tar.add(path, name)
    return made.getvalue()
