"""Runs with sparse transfer: their models, what was read of a reasoning, what was selected."""

from fakes import AttentiveModel, models

QUESTION = {"question": "Is it red?"}
REASONING = "A red dot.\nA blue dot.\nAnswer: no"


def attentive(**settings):
    """A pair of models whose run ends with a transfer of `REASONING`."""
    small, large = models("transferred", AttentiveModel, **settings)
    small.script["reason"] = REASONING
    return small, large


def blind(route="transferred"):
    """The same, of models that give no attention."""
    small, large = models(route)
    small.script["reason"] = REASONING
    return small, large


def read(model):
    """What a model read at last of a reasoning."""
    return model.calls[-1]["prompt"].partition("[")[2].removesuffix("]")


def selection_of(result):
    return result["calls"][-1]["selection"]


def weighs(**weights):
    """Words' weights by what they begin with; 0 for all others."""

    def attends(word, _layer):
        return weights.get(word.strip("[].:"), 0.0)

    return attends
