"""The graphs that `langgraph.json` names, for Studio and the LangGraph server.

They have no checkpointer: the server brings its own. `LANGGRAPH_MAI_PAIR` names another pair than
the demo's; with `LANGGRAPH_MAI_TRANSFER=sparse`, transfer is sparse, as that pair's file says.
Weights load at the first run, once a process.

Who may send a question may name any image: only files below `LANGGRAPH_MAI_IMAGE_ROOT` are read,
and none without it; addresses are fetched only with `LANGGRAPH_MAI_ALLOW_FETCH=1`.
"""

import os
from typing import Any

from ..models.pairs import load_pair
from ..nodes.gate import Gate
from .build import create_mai

_pair = load_pair(os.environ.get("LANGGRAPH_MAI_PAIR") or "demo")
_transfer: Any = os.environ.get("LANGGRAPH_MAI_TRANSFER") or "full"

mai = create_mai(
    _pair.small,
    _pair.large,
    prompts=_pair.prompts,
    transfer=_pair.sparse if _transfer == "sparse" else _transfer,
    selector=_pair.selector,
    gate=_pair.gate and Gate(_pair.gate, audit=_pair.audit),
    allow_fetch=os.environ.get("LANGGRAPH_MAI_ALLOW_FETCH") == "1",
    image_root=os.environ.get("LANGGRAPH_MAI_IMAGE_ROOT") or os.devnull,
)
"""One question about images."""
