"""The note that stands for the plan of a destroy is written by the executor, where the engine can write, too."""

from pathlib import Path

from terracrew.attempt.engine_directory import EngineDirectory
from terracrew.executor.engines.contract import EngineContext
from terracrew.executor.engines.pulumi.session import PulumiSession
from terracrew.protocol.spec import Step
from terracrew.toolchains.discovery import FoundEngine


def test_it_is_not_written_through_a_link_of_the_engine(tmp_path: Path) -> None:
    folder = tmp_path / "module"
    folder.mkdir()
    (folder / "Pulumi.yaml").write_text("name: one\nruntime: yaml\n")
    files = EngineDirectory(tmp_path / "engine-files")
    files.make()
    session = PulumiSession(
        FoundEngine("pulumi", "/usr/bin/pulumi", "3.255.0"), EngineContext(folder, files, tmp_path, {})
    )
    session.arguments(Step.PLAN, is_destroying=True)
    (victim := tmp_path / "worker.token").write_text("precious")
    files.new_plan.symlink_to(victim)
    session.after(Step.PLAN)
    assert victim.read_text() == "precious"
    assert not files.new_plan.is_symlink()
    assert files.new_plan.read_bytes().startswith(b"Destroys")
