"""Turn model output into plain text, sentences and words."""

import re
import unicodedata

_CHARACTERS = str.maketrans(
    {
        **dict.fromkeys("‘’‚‛′`´", "'"),
        **dict.fromkeys("“”„‟″«»", '"'),
        **dict.fromkeys("‐‑‒–—―−﹣－", "-"),
        **dict.fromkeys("\u200b\u200c\u200d\u2060\ufeff\u00ad", None),
        "⁄": "/",
        "♯": "#",
        **{sign: f"{plain} " for sign, plain in zip("。、，：；！？", ".,,:;!?", strict=True)},
    }
)
# NFKC would glue these to the number before them: 3½ would become 31/2, and 10⁶ would become 106.
_FRACTION_AFTER_DIGIT = re.compile(r"(?<=\d)(?=[¼-¾⅐-⅞])")
_SUPERSCRIPT_AFTER_DIGIT = re.compile(r"(?<=\d)(?=[⁰¹²³⁴-⁹⁻])")

_PERCENT_FIRST = re.compile(r"百分之(\d+(?:\.\d+)?)")
_MATH = re.compile(r"\$\$?(?! )([^$\n]{1,80}?)(?<! )\$\$?(?!\d)")  # not "$5 or $6"
_FONT = r"(?:normal|bf|it|rm|sf|tt|mathrm)?"
_INTEGER = r"(?:\{ ?(-?\d{1,15}) ?\}|(\d))"
_LATEX = (
    (re.compile(r"\{,\}"), ","),
    (re.compile(r"\\!"), ""),
    (re.compile(r"\\[,;: ]|\\q?quad\b|(?<=\{)~|~(?=\\(?:text|math))"), " "),
    (re.compile(r"\^(?:\{\\circ\}|\\circ\b)|\\degree\b"), "°"),
    # Twice, for one within another.
    *2 * ((re.compile(rf"\\(?:text|math|operatorname){_FONT}\{{([^{{}}]*)\}}"), r"\1"),),
    (re.compile(rf"(?<=\d) ?\\[dtc]?frac ?{_INTEGER} ?{_INTEGER}"), r" \1\2/\3\4"),
    (re.compile(rf"\\[dtc]?frac ?{_INTEGER} ?{_INTEGER}"), r"\1\2/\3\4"),
    (re.compile(r"\\(?:times|cdot)\b ?"), "×"),
    (re.compile(r"\\(?:pm)\b ?"), "±"),
    (re.compile(r"\\(?:approx|sim)\b ?"), "≈"),
    (re.compile(r"\\(?:leq?)\b ?"), "≤"),
    (re.compile(r"\\(?:geq?)\b ?"), "≥"),
    (re.compile(r"\\(?:to|(?:long)?rightarrow|Rightarrow|implies)\b ?"), "→"),
    (re.compile(r"\\sqrt\b ?"), "√"),
    (re.compile(r"\\pi\b"), "π"),
    (re.compile(r"\\infty\b"), "∞"),
    (re.compile(r"\\mu\b ?"), "μ"),
    (re.compile(r"\\Omega\b"), "Ω"),
    (re.compile(r"\\(?:underline|boldsymbol|(?:text)?color\{\w+\}) ?\{([^{}]*)\}"), r"\1"),
    (
        re.compile(
            r"\\(?:left|right|displaystyle|therefore|bf|small|[lL]arge|huge)\b"
            r"|\\color\{\w+\}|\\[()\[\]]"
        ),
        "",
    ),
    (re.compile(r"\\(?=[$&#_%])"), ""),
)
# What a model's template or tokenizer adds around its text.
_BOX_TOKENS = re.compile(r"<\|begin_of_box\|>([^<]*)<\|end_of_box\|>")
_MODEL_TOKEN = re.compile(
    r"<\|[\w▁ -]{1,40}\|>|</?s>|<unused\d{1,5}>|<(?:eos|bos|pad|end_of_utterance"
    r"|(?:start|end)_of_turn)>|\[/?INST\]"
)
_LINE_BREAK_TAG = re.compile(r"<br\s{0,3}/?>|</p>|</li>", re.IGNORECASE)
_EMPHASIS = re.compile(
    r"</?(?:b|i|u|em|strong|p|span|code|mark|ul|ol|li)>"
    r"|\*\*+|(?<!\d)\*(?=\S)|(?<=\S)\*(?!\d)"
    r"|__+|(?<!\w)_(?=\w)|(?<=\w)_(?!\w)"
    r"|~~|'''\w*",
    re.IGNORECASE,
)
_LINE_MARK = re.compile(r"^[ \t]*(?:#{1,6}|>)[ \t]+", re.MULTILINE)

_SENTENCE_END = re.compile(r"[.!?]+[\"')\]]?(?=\s|$)|\n+")
_NO_SENTENCE_END = re.compile(
    r"(?:^(?:[A-Za-z]|\d{1,3})|(?:[A-Z]\.)[A-Z]|\b(?:St|Mr|Mrs|Ms|Dr|Mt|Ft|No|vs|ca|approx|e\.g|i\.e))\.$"
)


def plain(text: str) -> str:
    r"""Return the text without markup, with one spelling for quotes, dashes, blanks and digits.

    Full-width and other compatibility characters become plain ones; Markdown, HTML and LaTeX
    dressing goes, but for the braces of `\boxed{...}`. Line breaks stay.
    """
    if not text.isascii():
        text = _SUPERSCRIPT_AFTER_DIGIT.sub("^", _FRACTION_AFTER_DIGIT.sub(" ", text))
        text = unicodedata.normalize("NFKC", text.translate(_CHARACTERS)).translate(_CHARACTERS)
        text = "".join(str(unicodedata.decimal(c)) if c.isdecimal() else c for c in text)
    text = _PERCENT_FIRST.sub(r"\1%", text.replace("`", "'"))
    if "<" in text or "[" in text:
        text = _MODEL_TOKEN.sub("", _BOX_TOKENS.sub(r"\\boxed{\1}", text))
    if "\\" in text or "{,}" in text:
        for pattern, replacement in _LATEX:
            text = pattern.sub(replacement, text)
    text = _MATH.sub(r"\1", text)
    text = _LINE_BREAK_TAG.sub("\n", text)
    text = _LINE_MARK.sub("", _EMPHASIS.sub("", text))
    lines = (" ".join(line.split()) for line in text.splitlines())
    return "\n".join(line for line in lines if line)


def sentences(text: str) -> list[str]:
    """Return the sentences of a plain text, without their blanks, with their full stops."""
    found: list[str] = []
    start = 0
    for end in _SENTENCE_END.finditer(text):
        piece = text[start : end.end()].strip()
        if "\n" in end.group() or not _NO_SENTENCE_END.search(piece[-12:]):
            found.append(piece)
            start = end.end()
    found.append(text[start:].strip())
    return [piece for piece in found if piece.strip(" .")]


def bare(text: str) -> str:
    """Return the text without the quotes, brackets, full stops and blanks around it."""
    previous = None
    while text != previous:
        previous = text
        text = text.strip(" \n\t\"',;:.!?")
        if text[:1] + text[-1:] in ("()", "[]", "{}", "<>"):
            text = text[1:-1]
    return text


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
    """Return the words of a text that lists them."""
    return tuple(words.split())


_IRREGULAR = {
    "people": "person", "men": "man", "women": "woman", "children": "child", "feet": "foot",
    "teeth": "tooth", "mice": "mouse", "leaves": "leaf", "knives": "knife",
}  # fmt: skip
PLACES = frozenset(
    word_list(
        "in on at under below above over behind beside near inside outside between by against "
        "along into onto beneath underneath around"
    )
)
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
    """Return the text in one case and without accents."""
    if text.isascii():
        return text.casefold()
    decomposed = unicodedata.normalize("NFD", text)
    # The stroke through a sign (\u0338) is no accent: "≠" is not "=".
    kept = "".join(c for c in decomposed if not "\u0300" <= c <= "\u036f" or c == "\u0338")
    return unicodedata.normalize("NFC", kept).casefold()


def tokens(text: str) -> list[str]:
    """Return the words, numbers and meaningful signs of a plain text, folded."""
    return [token for token in _TOKEN.findall(fold(text)) if len(token) > 1 or _counts(token)]


def _counts(sign: str) -> bool:
    """Return whether a single character is more than punctuation."""
    if sign.isalnum() or sign in _SIGNS:
        return True
    return unicodedata.category(sign) in _SIGN_CATEGORIES and sign not in _DRESSING


def singular(word: str) -> str:
    """Return the word in the singular: "dogs", "boxes", "people"; "bus" and "glass" stay."""
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if len(word) <= 3 or not word.endswith("s") or word.endswith(("ss", "us", "is")):
        return word
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    return word[:-2] if word.endswith(("xes", "ches", "shes", "sses")) else word[:-1]


def content_words(text: str) -> list[str]:
    """Return the content words in the singular; articles, auxiliaries and so on left out."""
    return [singular(token) for token in tokens(text) if token not in _STOP_WORDS]


def telling_words(text: str) -> list[str]:
    """Return the content words and those that link them: "the cat is on a mat": cat, on, mat."""
    return [singular(token) for token in tokens(text) if token not in _FILLERS]
