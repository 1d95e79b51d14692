import pytest
from hypothesis import given
from hypothesis import strategies as st

from langgraph_mai.nodes.reasoning import Reasoning, cut_reasoning

SENTENCE = "I look at the row again, and again it holds three dots. "

starts = st.text(max_size=200)
passes = st.text(alphabet="abc ,.\n1", min_size=1, max_size=60).filter(lambda unit: unit.strip())


@pytest.mark.parametrize("finish_reason", ["stop", "length", None])
def test_a_loop_is_cut_after_its_first_pass(finish_reason):
    text = f"First I count. {SENTENCE * 7}I look at the"
    cut = cut_reasoning(text, finish_reason)
    assert cut.cut == "loop"
    assert cut.text.startswith("First I count.")
    assert cut.text.count("holds three dots") == 1


def test_a_limit_without_a_loop_keeps_everything():
    cut = cut_reasoning("First I count. Then I", "length")
    assert (cut.text, cut.cut) == ("First I count. Then I", "length")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Answer: 3",
        "Answer: 3\nAnswer: 3\nAnswer: 3",
        "row 1 - - - - = 0\nrow 2 - - - - = 0\nrow 3 - yes - - = 1\nrow 4 - - - - = 1\nAnswer: 1",
        SENTENCE * 2 + "Answer: 3",
        "I see 3 dots, " + "no, " * 5 + "four.",
    ],
)
def test_what_is_no_loop_stays_as_it_is(text):
    cut = cut_reasoning(text, "stop")
    assert (cut.text, cut.cut) == (text, None)


@given(start=starts, unit=passes, times=st.integers(3, 20), rest=st.integers(0, 59))
def test_any_loop_is_found_and_cut_once(start, unit, times, rest):
    times = max(times, -(-100 // len(unit)))
    text = start + unit * times + unit[: rest % len(unit)]
    cut = cut_reasoning(text, "length")
    assert cut.cut == "loop"
    assert text.startswith(cut.text)
    assert len(cut.text) <= len(start) + len(unit)
    # What is left no longer goes round in circles.
    assert cut_reasoning(cut.text, "stop").cut is None or start


@given(text=st.text(max_size=79), finish_reason=st.sampled_from(["stop", "length", None]))
def test_short_texts_are_never_cut(text, finish_reason):
    assert cut_reasoning(text, finish_reason).text == text


def test_long_texts_without_a_loop_stay_whole():
    text = " ".join(f"Step {number}: nothing here." for number in range(3000))
    assert cut_reasoning(text, "length") == Reasoning(text, "length")
