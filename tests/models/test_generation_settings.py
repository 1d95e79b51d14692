"""Settings of a call are checked before anything reaches a model."""

import pytest

from langgraph_mai import ChatTransformers, ChatVLLM
from langgraph_mai.models.completion import Settings

WRONG = [
    {"max_tokens": 0},
    {"max_tokens": 5.0},
    {"max_tokens": True},
    {"max_tokens": "5"},
    {"seed": -1},
    {"seed": 1.5},
    {"seed": 1 << 64},
    {"temperature": -0.1},
    {"temperature": float("nan")},
    {"temperature": float("inf")},
    {"temperature": "hot"},
    {"top_logprobs": 21},
    {"stop": ("",)},
    {"stop": (b"x",)},
    {"stop": ("\ud800",)},
]
WRONG_TIMES = [0, -1, float("inf"), float("nan"), "5", True]


@pytest.mark.parametrize("wrong", WRONG)
def test_a_setting_of_the_wrong_kind_is_refused(wrong):
    with pytest.raises(ValueError, match="must be") as caught:
        Settings(**{"max_tokens": 5} | wrong)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", [ChatTransformers, ChatVLLM])
@pytest.mark.parametrize("wrong", [*WRONG, *({"timeout": time} for time in WRONG_TIMES)])
def test_a_call_refuses_it_before_a_model_loads(kind, wrong):
    with pytest.raises(ValueError, match="must be"):
        kind(model="/nowhere").invoke("?", **wrong)


def test_a_very_long_time_limit_is_none(demo_weights):
    model = ChatTransformers(model=str(demo_weights / "small"), dtype="float32", device="cpu")
    assert model.invoke("How many?", timeout=1e10).content is not None
