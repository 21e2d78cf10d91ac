"""Turns the words of a search into patterns for SQL's LIKE."""

from terracrew.server.db.seam import Param

MAX_WORDS = 4
"""The number of words in a statement. Further words are part of the last one, so they must match in the same order."""
UNUSED = "%%"
"""The pattern that stands for a missing word and matches everything."""


def patterns(typed: str) -> dict[str, Param]:
    """Return `word_1` to `word_4`: patterns to compare with lower-case text. An unused one matches everything."""
    words = [_escaped(word) for word in typed[:1000].lower().split()]
    if len(words) > MAX_WORDS:
        words[MAX_WORDS - 1 :] = ["%".join(words[MAX_WORDS - 1 :])]
    words += [""] * (MAX_WORDS - len(words))
    return {f"word_{number}": f"%{word}%" for number, word in enumerate(words, start=1)}


def _escaped(word: str) -> str:
    return word.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
