"""Thoughts in a channel of their own are transferred, shown and kept, wherever they came from."""

import pytest
from chat_servers import answers
from fakes import PROMPTS, QUESTION, ScriptedModel, models
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.memory import InMemorySaver

from langgraph_mai import ChatServer, MAIError, create_mai, create_strategy

THOUGHTS = "I see one dot. It is round.\nSo it is not red."


class Package(ScriptedModel):
    """Answers with the messages that the test wrote down."""

    said: dict[str, AIMessage]

    def _result(self, text, finish):
        message = self.said.get(self.calls[-1]["style"]) or AIMessage(text)
        return ChatResult(generations=[ChatGeneration(message=message)])


def pair(message, style="reason"):
    script, large = (model.script for model in models("transferred"))
    return Package(script=script, said={style: message}), ScriptedModel(script=large)


CHANNELS = {
    "langchain": AIMessage([{"type": "reasoning", "reasoning": THOUGHTS}, "no"]),
    "anthropic": AIMessage([{"type": "thinking", "thinking": THOUGHTS}, "no"]),
    "openai": AIMessage(
        [{"type": "reasoning", "summary": [{"type": "summary_text", "text": THOUGHTS}]}, "no"]
    ),
    "bedrock": AIMessage(
        [{"type": "reasoning_content", "reasoning_content": {"text": THOUGHTS}}, "no"]
    ),
    "deepseek": AIMessage("no", additional_kwargs={"reasoning_content": THOUGHTS}),
    "openrouter": AIMessage("no", additional_kwargs={"reasoning": THOUGHTS}),
}  # fmt: skip


@pytest.mark.parametrize("message", CHANNELS.values(), ids=CHANNELS)
def test_the_thoughts_are_transferred_shown_and_kept(message):
    small, large = pair(message)
    result = create_mai(small, large, prompts=PROMPTS).invoke(QUESTION)
    assert large.calls[-1]["prompt"].endswith(f"TRANSFER [{THOUGHTS}\nno]")
    reasoned = result["calls"][2]
    assert (reasoned["reasoning"], reasoned["text"], reasoned["answer"]) == (THOUGHTS, "no", "no")
    assert reasoned["cut"] is None
    block, _ = result["messages"][-1].content
    assert (block["type"], block["reasoning"]) == ("reasoning", f"{THOUGHTS}\nno")


@pytest.mark.parametrize(
    "message",
    [
        AIMessage("", additional_kwargs={"reasoning_content": THOUGHTS}),
        AIMessage([{"type": "reasoning", "reasoning": THOUGHTS}]),
        AIMessage(f"<think>\n{THOUGHTS}"),
        AIMessage(f"<think>\n{THOUGHTS} Answer: no, or maybe yes"),
    ],
    ids=["null content", "blocks", "a think block that never closes", "an answer inside it"],
)
def test_at_the_limit_the_thoughts_so_far_are_transferred_and_marked(message):
    message.response_metadata = {"finish_reason": "length"}
    small, large = pair(message)
    result = create_mai(small, large, prompts=PROMPTS).invoke(QUESTION)
    reasoned = result["calls"][2]
    assert (reasoned["cut"], reasoned["answer"], reasoned["error"]) == ("length", None, None)
    assert result["route"] == "transferred"
    assert THOUGHTS in large.calls[-1]["prompt"]


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (AIMessage("", response_metadata={"finish_reason": "content_filter"}), "content_filter"),
        (AIMessage("", response_metadata={"stop_reason": "refusal"}), "refusal"),
        (AIMessage("", response_metadata={"finish_reason": "SAFETY"}), "SAFETY"),
        (AIMessage("", additional_kwargs={"refusal": "I won't look."}), "I won't look."),
        (AIMessage([{"type": "refusal", "refusal": "I won't look."}]), "I won't look."),
    ],
)
def test_a_refusal_is_a_failure_that_names_its_reason(message, reason, run):
    small, large = pair(message, "direct")
    result = run(create_mai(small, large, prompts=PROMPTS), QUESTION)
    assert (result["answer"], result["fallback"]) == ("yes", "large_direct")
    assert result["calls"][0]["error"] == (
        f"The small model's direct call failed: the model gave no answer ({reason})"
    )
    with pytest.raises(MAIError, match=reason.rstrip(".")):
        run(create_strategy("small_direct", small, large, prompts=PROMPTS), QUESTION)


def test_a_direct_answer_at_its_limit_is_cut_and_long_thoughts_are_no_answer():
    for text, answer in (("yes", "yes"), (f"{THOUGHTS} Is it 3, or yes? " * 9, None)):
        message = AIMessage(text, response_metadata={"finish_reason": "length"})
        small, large = pair(message, "direct")
        call = create_mai(small, large, prompts=PROMPTS).invoke(QUESTION)["calls"][0]
        assert (call["answer"] or None, bool(call["cut"])) == (answer, True)


def test_a_servers_reasoning_parser(server):
    server.otherwise = answers("no", reasoning_content=THOUGHTS)
    large = models("transferred")[1]
    small = ChatServer(model="m", base_url=server.url, max_retries=0)
    result = create_mai(small, large, prompts=PROMPTS).invoke(QUESTION)
    assert large.calls[-1]["prompt"].endswith(f"TRANSFER [{THOUGHTS}\nno]")
    assert result["calls"][2]["reasoning"] == THOUGHTS


@pytest.mark.parametrize("key", ["small_direct", "small_reason"])
def test_an_answer_that_a_person_changes_in_the_state_counts(key):
    small, large = models("transferred")
    graph = create_mai(small, large, prompts=PROMPTS, checkpointer=InMemorySaver())
    thread = {"configurable": {"thread_id": "1"}}
    before = "verification" if key == "small_direct" else "reasoning_verification"
    graph.invoke(QUESTION, thread, interrupt_before=[before])
    call = graph.get_state(thread).values[key]
    node = "small_agent" if key == "small_direct" else "small_reasoning"
    graph.update_state(thread, {key: {**call, "answer": "Yes."}}, as_node=node)
    result = graph.invoke(None, thread)
    assert (result["answer"], large.styles) == ("yes", ["direct"])


def test_the_builder_is_langgraphs_and_can_be_compiled_again():
    graph = create_mai(*models("reasoned"), prompts=PROMPTS)
    assert graph.builder.compile().invoke(QUESTION)["route"] == "reasoned"
