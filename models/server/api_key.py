"""API keys, checked before anything is sent with them.

An HTTP client that is given a key which no header can hold shows it in its error.
"""

NO_KEY = "none"
"""Sent to servers that want no key: the protocol has no way to send none."""


def checked_key(key: object, name: str) -> str:
    """The key without the spaces and line ends around it, which files and mounted secrets add.

    Args:
        key: What was given as a key; None or an empty text for none.
        name: Where it was read, for the error.

    Returns:
        The key; `NO_KEY` if there is none.

    Raises:
        ValueError: No header can hold it. The message does not show it.
    """
    if key is None:
        return NO_KEY
    if not isinstance(key, str):
        raise ValueError(
            f"The API key in {name} is no text: if it is a function, call it and give its result."
        )
    return checked_header(key, f"The API key in {name}") or NO_KEY


def checked_header(value: str, name: str) -> str:
    """What a header holds, without the spaces and line ends around it.

    Args:
        value: What is to be sent.
        name: What it is, for the error.

    Raises:
        ValueError: No header can hold it. The message does not show it.
    """
    value = value.strip()
    if not (value.isascii() and value.isprintable()):
        raise ValueError(
            f"{name} is malformed: it holds a line break or a character that is not ASCII; copy it "
            "again."
        )
    return value
