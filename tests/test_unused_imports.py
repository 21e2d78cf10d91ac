"""Libraries are loaded without what they do not use, and processes without what they need later."""

import subprocess
import sys

import pytest

_LIBRARY = """
import sys
from terracrew import unused_imports
with unused_imports.skipped("colorsys", "json"):
    import colorsys
    assert "loaded" not in dir(colorsys)
    {inside}
assert "colorsys" not in sys.modules
import colorsys
assert colorsys.rgb_to_hls(0, 0, 0) == (0.0, 0.0, 0.0)
"""


def _run(code: str) -> None:
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_module_that_was_skipped_can_be_imported_afterwards() -> None:
    _run(_LIBRARY.format(inside="pass"))


def test_a_module_that_is_used_at_once_is_loaded() -> None:
    """Another thread may import it at the same time, and needs all of it."""
    used = "from colorsys import rgb_to_hls; assert rgb_to_hls(0, 0, 0) == (0.0, 0.0, 0.0); del sys.modules['colorsys']"
    _run(_LIBRARY.format(inside=used))


def test_a_module_that_is_loaded_already_stays() -> None:
    _run(f"import json, sys; before = json\n{_LIBRARY.format(inside='pass')}\nassert sys.modules['json'] is before")


@pytest.mark.feature("D3.docker", "D4.kubernetes")
def test_an_executor_in_a_container_loads_only_what_its_engine_waits_for() -> None:
    """Each of these took milliseconds before the first line of the engine."""
    late = (
        "argparse cryptography email importlib.metadata urllib.request websockets uvloop terracrew.plan_diff.document"
    )
    _run(
        "import sys\n"
        "from terracrew.executor.container import commands, ephemeral\n"
        "from terracrew.executor.engines.hcl import session\n"
        f"assert not (found := set({late.split()!r}) & set(sys.modules)), found"
    )


def test_the_connection_to_the_hub_loads_nothing_for_proxies_and_mail() -> None:
    _run(
        "import sys\nimport terracrew.client.hub\n"
        "assert not (found := {'email', 'http.client', 'importlib.metadata', 'urllib.request'} & set(sys.modules)), found"
    )


def test_a_proxy_can_be_used_for_the_connection_to_the_hub() -> None:
    _run(
        "import asyncio, os\n"
        "os.environ['http_proxy'] = os.environ['https_proxy'] = 'http://127.0.0.1:1'\n"
        "from terracrew.client import hub\n"
        "from terracrew.errors import Unreachable\n"
        "try:\n"
        "    asyncio.run(hub.connect('http://server.invalid', 'credential'))\n"
        "except Unreachable as error:\n"
        "    assert '127.0.0.1' in str(error) or 'proxy' in str(error).lower(), error\n"
        "else:\n"
        "    raise AssertionError('it was reached')\n"
    )
