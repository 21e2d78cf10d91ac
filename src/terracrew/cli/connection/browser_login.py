"""Logs in with a browser on this machine: it opens the server's page, and waits on a port of the loopback address for the answer."""

import hmac
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from terracrew.cli.connection.deadline import TimedOut
from terracrew.client.logins import BrowserRequest, LoginRefused, Logins, new_request
from terracrew.errors import TerracrewError

PATH = "/callback"
LOOPBACK = "127.0.0.1"
OPENING_SECONDS = 3.0
"""How long a browser may take to say that it cannot be opened."""
READ_SECONDS = 10.0
"""How long a connection to the port may be silent. Browsers open some that they do not use."""
MAX_ADDRESS_CHARACTERS = 8000
_OPEN = "import sys, webbrowser; sys.exit(not webbrowser.open(sys.argv[1]))"
_PAGE = (
    '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Terracrew</title>'
    '<meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark">'
    "<style>body{{font:16px system-ui;margin:20vh auto;max-width:26em;padding:0 1em}}</style></head>"
    "<body><h1>{title}</h1><p>{text}</p></body></html>"
)


class BrowserMissing(TerracrewError):
    """There is no browser that can be opened on this machine."""

    code, exit_code = "browser_missing", 1


def can_open(environment: Mapping[str, str] = os.environ, platform: str = sys.platform) -> bool:
    """Return whether a browser can probably be opened where the person sits."""
    if environment.get("BROWSER"):
        return True
    if environment.get("SSH_CONNECTION") or environment.get("SSH_TTY"):
        return False
    return platform in ("darwin", "win32") or bool(environment.get("DISPLAY") or environment.get("WAYLAND_DISPLAY"))


def open_browser(page: str) -> bool:
    """Open the address in a browser that belongs to no terminal. Returns False if there is none."""
    command = [sys.executable, "-P", "-c", _OPEN, page]
    quiet = subprocess.DEVNULL
    opening = subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True)
    try:
        return opening.wait(OPENING_SECONDS) == 0
    except subprocess.TimeoutExpired:
        return True  # a browser that runs until it is closed


class BrowserAnswer:
    """The port on which the browser brings the answer. Only an answer with the state of this login counts."""

    def __init__(self, server: "_CallbackServer") -> None:
        self._server = server
        self.redirect_uri = f"http://{LOOPBACK}:{server.server_port}{PATH}"
        self.request = new_request(self.redirect_uri)
        server.state = self.request.state

    def wait(self, seconds: float) -> str:
        """Return the code of the answer."""
        try:
            given = self._server.answers.get(timeout=seconds)
        except queue.Empty:
            raise TimedOut(
                f"nobody answered in the browser within {seconds:g} s, and nothing was stored",
                hint="log in again, with --no-browser if the browser is on another machine",
            ) from None
        if "code" not in given:
            words = (
                "the login was denied in the browser" if given.get("error") == "access_denied" else "the login failed"
            )
            raise LoginRefused(f"{words}, and nothing was stored", given.get("error", ""))
        return given["code"]


@contextmanager
def listening() -> Generator[BrowserAnswer]:
    """Listen on a port of this machine that nothing else uses, until the block ends."""
    server = _CallbackServer((LOOPBACK, 0), _CallbackHandler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
    thread.start()
    try:
        yield BrowserAnswer(server)
    finally:
        server.shutdown()
        server.server_close()


def open_page(logins: Logins, request: BrowserRequest, machine: str) -> str:
    """Open the page that asks the person, and return its address."""
    page = logins.page(request, machine)
    if not open_browser(page):
        raise BrowserMissing("no browser could be opened on this machine")
    return page


class _CallbackServer(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    """A connection that a browser keeps open must not keep the command from ending."""

    def __init__(self, *given: Any) -> None:
        self.answers: queue.Queue[dict[str, str]] = queue.Queue()
        self.state = ""
        super().__init__(*given)


class _CallbackHandler(BaseHTTPRequestHandler):
    timeout = READ_SECONDS

    def do_GET(self) -> None:
        assert isinstance(self.server, _CallbackServer)
        target = urlsplit(self.path[:MAX_ADDRESS_CHARACTERS])
        if target.path != PATH:
            self._show(404, "There is nothing here", "This port waits for the answer of a login, and for nothing else.")
            return
        query = parse_qs(target.query)
        given = {name: values[0] for name, values in query.items() if len(values) == 1}
        is_own = hmac.compare_digest(given.get("state", "").encode(), self.server.state.encode())
        if not is_own or not ("code" in given) ^ ("error" in given):
            self._show(400, "This is not the answer", "The terminal waits for the answer of another login.")
            return
        if "code" in given:
            self._show(200, "Go back to the terminal", "It says whether the login worked. You can close this page.")
        else:
            self._show(200, "The login was denied", "The terminal gets no token. You can close this page.")
        self.server.answers.put(given)

    def _show(self, status: int, title: str, text: str) -> None:
        body = _PAGE.format(title=title, text=text).encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Cache-Control", "no-store")
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the name in the class above)
        """Print nothing: the address has the code in it."""
