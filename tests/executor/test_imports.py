"""What the process that executors are forked from must not carry."""

import subprocess
import sys


def test_an_executor_imports_neither_the_server_nor_what_only_settings_and_clis_need() -> None:
    code = "import sys, terracrew.executor.main as main; main.warm([]); print(*sorted({name.split('.')[0] for name in sys.modules}))"
    modules = set(
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    )
    unwanted = {
        "pydantic",
        "httpx",
        "litestar",
        "uvicorn",
        "click",
        "rich",
        "jinja2",
        "sqlite3",
    }
    assert modules & unwanted == set()
    ours_only = "(name for name in sys.modules if name.startswith('terracrew.'))"
    code = f"import sys, terracrew.executor.main as main; main.warm([]); print(*{ours_only})"
    ours = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    rooms = {name.split(".")[1] for name in ours}
    small = {"backoff", "errors", "plugins"}
    shared = {"engine_rules", "masking", "plan_diff", "protocol", "source_rules", "system", "wording"}
    assert rooms == {"attempt", "client", "executor", "toolchains", *shared, *small}
