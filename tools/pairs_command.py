"""`mai pairs`: the pairs of models that come with the package."""

from ..configs import list_pairs, load_pair_config
from .errors import reports_errors
from .options import Debug, Json
from .output import print_json


@reports_errors
def pairs(*, as_json: Json = False, debug: Debug = False) -> None:  # noqa: ARG001
    """List the pairs of models that come with the package."""
    found = [
        {
            "name": name,
            "small": pair.small.model,
            "large": pair.large.model,
            "backend": pair.backend,
            "description": pair.description,
        }
        for name, pair in ((name, load_pair_config(name)) for name in list_pairs())
    ]
    if as_json:
        print_json(found)
        return
    from .rendering import show_pairs

    show_pairs(found)
