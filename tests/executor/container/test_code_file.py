"""The file with the code of all modules: what is taken from it, and what never is."""

import marshal
import os
import subprocess
import sys
from pathlib import Path

_WRITE = "import one.two; from terracrew.executor.container import code_file; code_file.write({file!r})"
_USE = """
from terracrew.executor.container import code_file
code_file.use({file!r})
import one.two, email.message, inspect
print(one.two.ANSWER, type(one.two.__spec__.loader).__name__, one.__path__, one.two.__file__, inspect.getsource(one.two.ask))
"""


def _run(folder: Path, code: str, *options: str, also: str = "") -> str:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (also, str(folder), *sys.path)))}
    done = subprocess.run([sys.executable, *options, "-c", code], env=env, capture_output=True, text=True, check=True)
    return done.stdout


def _package(folder: Path, answer: int) -> Path:
    (folder / "one").mkdir(exist_ok=True, parents=True)
    (folder / "one" / "__init__.py").touch()
    source = folder / "one" / "two.py"
    source.write_text(f"ANSWER = {answer}\n\ndef ask():\n    return ANSWER\n")
    return source


def _file_with(folder: Path) -> str:
    _package(folder, 41)
    file = str(folder / "share" / "code")
    _run(folder, _WRITE.format(file=file), "-P")
    return file


def test_a_module_is_the_same_from_the_file_as_from_its_source(tmp_path: Path) -> None:
    file = _file_with(tmp_path)
    folder = f"{tmp_path}/one"
    said = _run(tmp_path, _USE.format(file=file), "-P")
    assert said.split() == f"41 _Loader ['{folder}'] {folder}/two.py def ask(): return ANSWER".split()


def test_the_list_of_modules_depends_on_nothing_but_its_values(tmp_path: Path) -> None:
    """Two builds of an image differed in four bytes, which said whether something else referred to an object at that moment."""
    content = Path(_file_with(tmp_path)).read_bytes()
    head = content[8 : 8 + int.from_bytes(content[:8])]
    assert head == marshal.dumps(marshal.loads(head), 0), "the format without such marks"


def test_the_current_directory_of_the_build_does_not_matter(tmp_path: Path) -> None:
    _package(tmp_path, 41)
    file = str(tmp_path / "code")
    _run(tmp_path, _WRITE.format(file=file))  # without -P
    assert "_Loader" in _run(tmp_path, _USE.format(file=file), "-P")


def test_a_source_that_has_changed_is_imported_as_it_is(tmp_path: Path) -> None:
    file = _file_with(tmp_path)
    source = _package(tmp_path, 42)
    os.utime(source, (1, 1))
    assert _run(tmp_path, _USE.format(file=file), "-P").startswith("42 SourceFileLoader")


def test_a_module_that_is_found_in_another_place_now_is_imported_from_there(tmp_path: Path) -> None:
    file = _file_with(tmp_path)
    _package(tmp_path / "other", 43)
    said = _run(tmp_path, _USE.format(file=file), "-P", also=str(tmp_path / "other"))
    assert said.startswith("43 SourceFileLoader")


def test_without_the_file_or_with_a_damaged_one_modules_are_imported_as_usual(tmp_path: Path) -> None:
    file = Path(_file_with(tmp_path))
    content = file.read_bytes()
    for damaged in (b"", content[:3], content[:50], b"\xff" * 100):
        file.write_bytes(damaged)
        assert _run(tmp_path, _USE.format(file=str(file)), "-P").startswith("41 SourceFileLoader")
    file.unlink()
    assert _run(tmp_path, _USE.format(file=str(file)), "-P").startswith("41 SourceFileLoader")


def test_a_process_that_uses_the_file_can_write_it_again(tmp_path: Path) -> None:
    file = _file_with(tmp_path)
    again = f"from terracrew.executor.container import code_file; code_file.use({file!r}); {_WRITE.format(file=file)}"
    _run(tmp_path, again, "-P")
    assert _run(tmp_path, _USE.format(file=file), "-P").startswith("41 _Loader")
