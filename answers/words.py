"""Words of a plain text: tokens, singular forms, and the words that carry its content."""

import re
import unicodedata

# Numbers with their separators, words with inner apostrophes (and C++, C#), signs of units.
_TOKEN = re.compile(
    r"(?<![\w.])-?\d+(?:[.,]\d+)*|\d+(?:[.,]\d+)*|[^\W\d_]+(?:'[^\W\d_]+)*[+#]*|[%$€£¥₹°]"
)


def word_list(words: str) -> tuple[str, ...]:
    """The words of a text that lists them."""
    return tuple(words.split())


ARTICLES = frozenset({"a", "an", "the"})
_STOP_WORDS = frozenset(
    word_list(
        "a an the this that these those it its there here he she they them his her their i you we "
        "is are was were be been being am do does did has have had can could will would shall "
        "should may might must of in on at to for from by with as and or into onto also so very "
        "some any which what who whom whose when where how's it's that's there's"
    )
)


def fold(text: str) -> str:
    """The text in one case and without accents."""
    if text.isascii():
        return text.casefold()
    decomposed = unicodedata.normalize("NFD", text)
    kept = "".join(c for c in decomposed if not ("\u0300" <= c <= "\u036f"))
    return unicodedata.normalize("NFC", kept).casefold()


def tokens(text: str) -> list[str]:
    """The words and numbers of a plain text, folded."""
    return _TOKEN.findall(fold(text))


def singular(word: str) -> str:
    """The word without a plural "s": "dogs" and "dog" become one, "bus" and "glass" stay."""
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


def content_words(text: str) -> list[str]:
    """The tokens that carry content, in the singular; articles, auxiliaries and so on left out."""
    return [singular(token) for token in tokens(text) if token not in _STOP_WORDS]
