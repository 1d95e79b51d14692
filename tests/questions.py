"""Questions and benchmarks with few words."""

from fakes import data_uri

from langgraph_mai.benchmarks.question import Benchmark, BenchmarkQuestion

RED = data_uri()


def question(name: object = "1", text: str = "Is it red?", **changed) -> BenchmarkQuestion:
    """A question about a red image, to be answered by yes."""
    given = {"images": (RED,), "answers": ("yes",), "answer_type": "yes_no"} | changed
    return BenchmarkQuestion(id=str(name), question=text, **given)


def benchmark(*questions: BenchmarkQuestion, metric="accuracy", name=None) -> Benchmark:
    return Benchmark(name=name or metric, questions=questions, prompts="default", metric=metric)
