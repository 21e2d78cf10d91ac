"""Archives that hold exactly the files that a test names."""

import io
import tarfile


def packed(files: dict[str, str]) -> bytes:
    """An archive with exactly these files; that of our own CLI leaves some of them out."""
    packing = io.BytesIO()
    with tarfile.open(fileobj=packing, mode="w:gz") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    return packing.getvalue()
