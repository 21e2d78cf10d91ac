"""Files of releases that are signed with a key of the tests, and how they get to a server."""

import base64
import hashlib
from typing import Any

from terracrew.protocol.transfers import PART_BYTES
from terracrew.releases import minisign, release_files
from tests.server.application import Application, Person

KEY = minisign.SecretKey(b"\x01" * 8, b"\x02" * 32)
OTHER_KEY = minisign.SecretKey(b"\x03" * 8, b"\x04" * 32)
VERSION = "0.1.0-rc.2"
WHEEL = "terracrew-0.1.0rc2-py3-none-any.whl"
API = "/api/v1"


def signature(content: bytes, name: str = WHEEL, version: str = VERSION, key: minisign.SecretKey = KEY) -> str:
    return minisign.sign(key, content, minisign.release_comment(version, name))


def relabelled(text: str) -> str:
    """The same signature, said to be of a whole file instead of its hash. Nothing signs which of both it is."""
    lines = text.splitlines()
    lines[1] = base64.b64encode(b"Ed" + base64.b64decode(lines[1])[2:]).decode()
    return "\n".join(lines) + "\n"


def image(reference: str, name: str = "terracrew-runner", **changed: Any) -> dict[str, Any]:
    """An image as a request names it, with the signature of its reference."""
    content = release_files.image_content(reference)
    signed = signature(content, f"{name}{release_files.IMAGE_SUFFIX}")
    return {"name": name, "kind": "image", "reference": reference, "signature": signed, **changed}


async def sent(person: Person, content: bytes, version: str = VERSION) -> str:
    """Send a file in one request, and return the id of its upload."""
    answer = await person.post(f"{API}/releases/{version}/files", content=content)
    assert answer.status_code == 201, answer.text
    found = answer.json()
    assert (found["sha256"], found["size_bytes"]) == (hashlib.sha256(content).hexdigest(), len(content))
    return found["upload"]


async def sent_in_parts(person: Person, content: bytes, version: str = VERSION) -> str:
    wanted = {"target": f"release {version}", "sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}
    staged = (await person.put(f"{API}/uploads", json=wanted)).json()
    for index in staged["missing"]:
        part = content[index * PART_BYTES : (index + 1) * PART_BYTES]
        assert (await person.put(f"{API}/uploads/{staged['id']}/{index}", content=part)).status_code == 204
    answer = await person.post(f"{API}/releases/{version}/files", headers={"X-Upload": staged["id"]})
    assert answer.status_code == 201, answer.text
    assert answer.json()["upload"] == staged["id"]
    return staged["id"]


def wheel(content: bytes, upload: str, **changed: Any) -> dict[str, Any]:
    """A wheel as a request names it."""
    return {
        "name": WHEEL,
        "kind": "wheel",
        "sha256": hashlib.sha256(content).hexdigest(),
        "signature": signature(content),
        "upload": upload,
        **changed,
    }


async def published(person: Person, content: bytes = b"a wheel", **changed: Any) -> dict[str, Any]:
    """Publish a release with one wheel."""
    upload = await sent(person, content)
    body = {"version": VERSION, "notes": "# News", "artifacts": [wheel(content, upload)], **changed}
    return await person.made(f"{API}/releases", body)


async def publisher(application: Application, name: str = "ci") -> Person:
    """Somebody who has only a release token."""
    made = await application.admin.made(f"{API}/release-tokens", {"name": name})
    person = application.stranger()
    person.headers["Authorization"] = f"Bearer {made['token']}"
    return person
