"""The names of modules as workspaces. The engines' command lines accept no slash in them, and names of the tree have no dot."""

import re

from terracrew import ids
from terracrew.errors import Invalid, NotFound
from terracrew.server.tree.groups import tree_path

_WORKSPACE = re.compile(r"[a-z0-9.-]{1,1000}\Z")


def workspace(path: str) -> str:
    """Return the name of the workspace that a module is: `platform.network` for `platform/network`."""
    return path.replace("/", ".")


def module_path(name: str) -> str:
    """Return the path of the module that a workspace is. Its id is a name, too."""
    return name if ids.is_id("mod", name) else name.replace(".", "/")


def group_path(name: str) -> str:
    """Return the path of the group that a project is. Its id is a name, too."""
    return name if ids.is_id("grp", name) else name.replace(".", "/")


def new_module_path(name: str, project: str = "") -> str:
    """Return the path of a module that is created under this name, in the group of a project if one was chosen."""
    if not _WORKSPACE.match(name) or not all(name.split(".")):
        raise Invalid.in_field(
            "name",
            f"{name!r} cannot be the name of a module: use lowercase letters, digits and hyphens, and a dot where its path has a slash "
            "(platform.network is the module platform/network)",
        )
    path = tree_path.parse(module_path(name))
    if project and not path.startswith(f"{project}/"):
        raise Invalid.in_field(
            "name",
            f"{name!r} is not in the project {project}: the name of a workspace is its whole path, so call it "
            f"{workspace(f'{project}/{path}')}",
        )
    return path


def unseen(name: str) -> NotFound:
    return NotFound(f"there is no module `{module_path(name)}` here, or you may not see it")


def run_id(job_id: str) -> str:
    """Return the id of the run that a job is. The clients accept only such ids in files of saved plans."""
    return f"run-{job_id.removeprefix('job_')}"


def job_id(run: str) -> str:
    """Return the id of the job that a run is."""
    return ids.parse("job", run.removeprefix("run-"))
