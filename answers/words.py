"""Words of a plain text: tokens, singular forms, and the words that carry its content."""

import re
import unicodedata

# Numbers with their separators, words with inner apostrophes (and C++, C#, O-), single signs.
_TOKEN = re.compile(
    r"(?<![\w.])-?\d+(?:[.,]\d+)*|\d+(?:[.,]\d+)*"
    r"|[^\W\d_]+(?:'[^\W\d_]+)*(?:[+#♭♮]+|-(?![\w-]))?"
    r"|[%&^+<>=]|(?<=\d)/(?=\d)|\*(?= ?\d)|[^\w\s!-#'-~]"
)
# Of other signs, those of mathematics, money and degrees carry meaning; the rest is dressing.
_SIGN_CATEGORIES = ("Sm", "Sc")
_SIGNS = frozenset("°♭♮^&%*/")
_DRESSING = frozenset("≈")


def word_list(words: str) -> tuple[str, ...]:
    """The words of a text that lists them."""
    return tuple(words.split())


_LINKS = frozenset(
    word_list(
        "he she his her of in on at to for from by with as and or into onto which what who whom "
        "whose when where"
    )
)
_FILLERS = frozenset(
    word_list(
        "a an the this that these those it its there here they them their i you we is are was were "
        "be been being am do does did has have had can could will would shall should may might "
        "must also so very some any it's that's there's how's"
    )
)
_STOP_WORDS = _LINKS | _FILLERS


def fold(text: str) -> str:
    """The text in one case and without accents."""
    if text.isascii():
        return text.casefold()
    decomposed = unicodedata.normalize("NFD", text)
    # The stroke through a sign (\u0338) is no accent: "≠" is not "=".
    kept = "".join(c for c in decomposed if not "\u0300" <= c <= "\u036f" or c == "\u0338")
    return unicodedata.normalize("NFC", kept).casefold()


def tokens(text: str) -> list[str]:
    """The words, numbers and meaningful signs of a plain text, folded."""
    return [token for token in _TOKEN.findall(fold(text)) if len(token) > 1 or _counts(token)]


def _counts(sign: str) -> bool:
    """Whether a single character is more than punctuation."""
    if sign.isalnum() or sign in _SIGNS:
        return True
    return unicodedata.category(sign) in _SIGN_CATEGORIES and sign not in _DRESSING


def singular(word: str) -> str:
    """The word without a plural "s": "dogs" and "dog" become one, "bus" and "glass" stay."""
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


def content_words(text: str) -> list[str]:
    """The tokens that carry content, in the singular; articles, auxiliaries and so on left out."""
    return [singular(token) for token in tokens(text) if token not in _STOP_WORDS]


def telling_words(text: str) -> list[str]:
    """The content words and those that link them: "the cat is on a mat" gives cat, on, mat."""
    return [singular(token) for token in tokens(text) if token not in _FILLERS]
