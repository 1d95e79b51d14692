"""Questions and benchmarks with few words."""

from langgraph_mai.benchmarks.question import Benchmark, BenchmarkQuestion


def question(name: object = "1", text: str = "Is it red?", **changed) -> BenchmarkQuestion:
    """A question about nothing, to be answered by yes."""
    given = {"images": (), "answers": ("yes",), "answer_type": "yes_no"} | changed
    return BenchmarkQuestion(id=str(name), question=text, **given)


def benchmark(*questions: BenchmarkQuestion, metric="accuracy", name=None) -> Benchmark:
    return Benchmark(name=name or metric, questions=questions, prompts="default", metric=metric)
