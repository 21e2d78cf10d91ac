"""Ends with 0 if the server of this container answers. It answers also while it waits for its database."""

import os
import urllib.request

port = os.environ.get("TERRACREW_SERVER_PORT", "7400")
with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=4) as answer:
    answer.read()
