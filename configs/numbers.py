"""Numbers in settings: true and false are none, though Python counts with them."""


def refuse_bool(value: object) -> object:
    """What was given, unless it is true or false, which would be read as 1 or 0.

    For a pydantic validator that runs before the field's own.

    Raises:
        ValueError: It is true or false.
    """
    if isinstance(value, bool):
        raise ValueError("must be a number, not true or false")
    return value
