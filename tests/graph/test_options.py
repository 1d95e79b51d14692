"""What cannot work is refused when the graph is built, in one sentence."""

import pytest
from fakes import PROMPTS, ScriptedModel, models
from langchain_core.output_parsers import StrOutputParser

from langgraph_mai import ConfigError, Judge, SparseTransfer, create_mai, create_strategy


async def later(*_texts):
    return "agree"


class LaterToo:
    async def __call__(self, *_texts):
        return "agree"


def model():
    return ScriptedModel(script={})


@pytest.mark.parametrize(
    ("option", "value", "sentence"),
    [
        ("small", None, "`small` must be a chat model"),
        ("large", 4, "`large` must be a chat model"),
        ("small", ScriptedModel, "not the class ScriptedModel"),
        ("small", model() | StrOutputParser(), "not RunnableSequence"),
        ("large", model().with_fallbacks([model() | StrOutputParser()]), "`large` must be"),
        ("timeout", 0, "a number of seconds above 0"),
        ("timeout", -1, "not -1"),
        ("timeout", "5", "not '5'"),
        ("timeout", True, "not True"),
        ("timeout", float("nan"), "not nan"),
        ("timeout", float("inf"), "None for no limit"),
        ("prompts", None, "not NoneType"),
        ("prompts", {"direct": 1}, "not dict"),
        ("verifier", "judge", "`verifier` must be a function of two answers"),
        ("verifier", later, "`verifier` must be a plain function"),
        ("verifier", LaterToo(), "`verifier` must be a plain function"),
        ("transfer", "half", '`transfer` must be "full", "sparse", a SparseTransfer or a function'),
        ("transfer", SparseTransfer, "not <class"),
        ("transfer", "sparse", "Sparse transfer needs attention, which the large model"),
        ("transfer", None, "not None"),
        ("transfer", later, "`transfer` must be a plain function"),
        ("cache", True, "`cache` must be a LangGraph cache"),
    ],
)
@pytest.mark.parametrize("strategy", ["mai", "large_two_stage"])
def test_an_option_of_a_wrong_kind_is_refused(strategy, option, value, sentence):
    options = {"small": model(), "large": model(), "prompts": PROMPTS, option: value}
    with pytest.raises(ConfigError) as error:
        create_strategy(strategy, **options)
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("options", [{"model": None}, {"model": model(), "timeout": 0}])
def test_a_judge_checks_its_options_too(options):
    with pytest.raises(ConfigError):
        Judge(**options)


def test_a_timeout_may_be_a_whole_number():
    graph = create_mai(*models(), prompts=PROMPTS, timeout=60)
    assert graph.invoke({"question": "Is it red?"})["answer"] == "yes"
