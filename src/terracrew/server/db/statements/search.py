"""What is typed into a field of search, as patterns for SQL's LIKE."""

from terracrew.server.db.seam import Param

MAX_WORDS = 4
"""A statement has room for so many words; what is typed behind them has to come in the same order."""
UNUSED = "%%"
"""The pattern of a word that was not typed."""


def patterns(typed: str) -> dict[str, Param]:
    """`word_1` to `word_4`, each a pattern that is compared with lower-case text; one that is not used matches everything."""
    words = [_escaped(word) for word in typed[:1000].lower().split()]
    if len(words) > MAX_WORDS:
        words[MAX_WORDS - 1 :] = ["%".join(words[MAX_WORDS - 1 :])]
    words += [""] * (MAX_WORDS - len(words))
    return {f"word_{number}": f"%{word}%" for number, word in enumerate(words, start=1)}


def _escaped(word: str) -> str:
    return word.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
