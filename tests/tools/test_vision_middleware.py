"""`VisionMiddleware` in several kinds of agents; planners are scripted, the vision side is real."""

import sqlite3

import pytest
from agents import (
    HIGHEST,
    SQUARES,
    THREAD,
    block,
    calls,
    encoded,
    picture,
    planner,
    shown,
    tool_messages,
)
from deepagents import create_deep_agent
from langchain.agents import create_agent
from langchain.agents.middleware import SummarizationMiddleware
from langchain.tools import tool as as_tool
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver

from langgraph_mai import MAIInputError, VisionMiddleware, create_mai, load_pair

RED, FOUR = "answer: red\nroute: direct", "answer: 4\nroute: transferred"
CONVERSATION = [
    (shown("chart", HIGHEST), {"question": HIGHEST}, RED),
    (shown("squares", SQUARES), {"question": SQUARES}, FOUR),
    (HumanMessage("And the first?"), {"question": HIGHEST, "images": ["[image 1]"]}, RED),
    (HumanMessage("Count again."), {"question": SQUARES}, FOUR),
    (shown("chart", "This one."), {"question": HIGHEST}, RED),
    (HumanMessage("The former?"), {"question": SQUARES, "images": ["2"]}, FOUR),
]
"""What a person says, what the planner asks the tool, and what the tool answers."""


def script():
    return planner(*(m for _, args, _ in CONVERSATION for m in (calls(args), AIMessage("So."))))


def in_short():
    """Summaries of all but the last two messages, so that every picture gets dropped."""
    they_talked = planner(*[AIMessage("They talked.")] * 20)
    return SummarizationMiddleware(they_talked, trigger=("messages", 4), keep=("messages", 2))


def member(mai, *others):
    """An agent that looks, as a member of a team."""
    return create_agent(script(), [*others], middleware=[VisionMiddleware(mai)], name="vision")


def one_agent(mai, **options):
    middleware = [in_short(), VisionMiddleware(mai, **options)]
    return create_agent(script(), middleware=middleware, checkpointer=InMemorySaver())


def blind_agent(mai):
    return one_agent(mai, planner_sees=False)


def deep_agent(mai):
    middleware = [in_short(), VisionMiddleware(mai)]
    return create_deep_agent(script(), middleware=middleware, checkpointer=InMemorySaver())


def supervisor(mai):
    module = pytest.importorskip("langgraph_supervisor")

    delegates = []
    for _ in CONVERSATION:
        delegates += [calls({}, name="transfer_to_vision"), AIMessage("Well.")]
    team = module.create_supervisor(
        [member(mai)], model=planner(*delegates), output_mode="full_history"
    )
    return team.compile(checkpointer=InMemorySaver())


def swarm(mai):
    module = pytest.importorskip("langgraph_swarm")
    to_vision = calls({}, name="transfer_to_vision")
    first = create_agent(
        planner(to_vision), [module.create_handoff_tool(agent_name="vision")], name="first"
    )
    team = module.create_swarm([first, member(mai)], default_active_agent="first")
    return team.compile(checkpointer=InMemorySaver())


@pytest.mark.filterwarnings("ignore:create_react_agent has been moved")  # by langgraph-supervisor
@pytest.mark.parametrize("make", [one_agent, blind_agent, deep_agent, supervisor, swarm])
def test_each_answer_is_about_the_right_picture(make, demo_mai, run):
    agent = make(demo_mai)
    for message, _, answer in CONVERSATION:
        result = run(agent, {"messages": [message]}, THREAD)
        assert [m for m in tool_messages(result) if m.name == "ask_about_images"][
            -1
        ].content == answer
        assert "vision_images" not in result
    if make in {one_agent, blind_agent}:
        held = agent.get_state(THREAD).values["messages"]
        assert all(isinstance(message.content, str) for message in held)


@pytest.mark.filterwarnings("ignore:create_react_agent has been moved")  # by langgraph-supervisor
@pytest.mark.parametrize("kind", ["supervisor", "swarm"])
def test_the_cascade_itself_is_a_member_by_its_name(kind, run):
    module = pytest.importorskip(f"langgraph_{kind}")
    pair = load_pair("demo")
    mai = create_mai(pair.small, pair.large, prompts=pair.prompts, name="vision")
    turns = [(calls({}, name="transfer_to_vision"), AIMessage("Well.")) for _ in range(3)]
    delegates = planner(*(message for turn in turns for message in turn))
    if kind == "supervisor":
        team = module.create_supervisor([mai], model=delegates, output_mode="full_history")
    else:
        handoff = module.create_handoff_tool(agent_name="vision")
        first = create_agent(delegates, [handoff], name="first")
        team = module.create_swarm([first, mai], default_active_agent="first")
    agent = team.compile(checkpointer=InMemorySaver())
    asked = [shown("chart", HIGHEST), shown("squares", SQUARES), HumanMessage(SQUARES)]
    for message, answer in zip(asked, ("red", "4", "4"), strict=True):
        result = run(agent, {"messages": [message]}, THREAD)
        said = [m.text for m in result["messages"] if isinstance(m, AIMessage)]
        assert answer in said[-3:]


@pytest.mark.parametrize("sees", [True, False])
def test_the_planner_reads_numbers(sees, demo_mai, run):
    @as_tool
    def draw() -> list:
        """Draw a picture."""
        return [{"type": "text", "text": "Drawn:"}, block("squares")]

    plan = planner(
        calls({}, name="draw"), calls({"question": SQUARES, "images": ["3"]}), AIMessage(".")
    )
    vision = VisionMiddleware(demo_mai, planner_sees=sees)
    agent = create_agent(plan, [draw], middleware=[vision], system_prompt="Help.")
    document = {"type": "file", "mime_type": "application/pdf", "base64": "JVBERi0="}
    broken = {"type": "image", "base64": "bm8=", "mime_type": "image/png"}
    asked = HumanMessage([*shown("chart", HIGHEST).content, broken, document])
    result = run(agent, {"messages": [asked]})
    assert tool_messages(result)[-1].content == FOUR
    assert asked.content[1] == block("chart")

    system, human, _, drawn, *_ = plan.prompts[-1]
    assert system.content == "Help."
    if sees:
        kinds = [b.get("text", b["type"]) for b in human.content]
        assert kinds == [HIGHEST, "[image 1]", "image", "[image 2]", "image", "file"]
        assert [b.get("text", b["type"]) for b in drawn.content] == ["Drawn:", "[image 3]", "image"]
    else:
        told = "[file application/pdf: not shown, as it is no image]"
        assert human.content == f"{HIGHEST}\n[image 1]\n[image 2]\n{told}"
        assert drawn.content == "Drawn:\n[image 3]"


def test_a_thread_stores_each_picture_once_more_and_no_more(demo_mai, tmp_path):
    path = tmp_path / "threads.sqlite"
    sizes = []
    with SqliteSaver.from_conn_string(str(path)) as saver:
        agent = create_agent(script(), middleware=[VisionMiddleware(demo_mai)], checkpointer=saver)
        for message, *_ in CONVERSATION[:4]:
            agent.invoke({"messages": [message]}, THREAD)
            with sqlite3.connect(path) as base:
                writes = base.execute(
                    "select sum(length(value)) from writes where channel = 'vision_images'"
                )
                sizes.append(writes.fetchone()[0])
    pixels = len(encoded("chart")) + len(encoded("squares"))
    assert sizes[1] == sizes[2] == sizes[3]
    assert pixels < sizes[3] < pixels + 2000


@pytest.mark.parametrize("store", [{"images": {"x": 5}, "latest": []}, {"images": {}, "latest": 5}])
def test_a_store_that_somebody_else_wrote_is_refused(store, demo_mai):
    vision = [VisionMiddleware(demo_mai)]
    agent = create_agent(script(), middleware=vision, checkpointer=InMemorySaver())
    written = {"messages": [], "vision_images": store}
    agent.update_state(THREAD, written, as_node="VisionMiddleware.before_agent")
    with pytest.raises(MAIInputError, match="holds no 'vision_images' as"):
        agent.invoke({"messages": [shown("chart")]}, THREAD)


def test_no_file_is_read_to_name_an_image(demo_mai):
    agent = create_agent(
        planner(AIMessage(".")),
        middleware=[VisionMiddleware(demo_mai)],
        checkpointer=InMemorySaver(),
    )
    source = {"type": "url", "url": picture("chart")}
    inner = {"type": "image", "path": picture("chart")}
    blocks = [{"type": "image", "source": source}, {"type": "non_standard", "value": inner}]
    agent.invoke({"messages": [HumanMessage(blocks, id="1")]}, THREAD)
    kept = agent.get_state(THREAD).values["vision_images"]
    assert list(kept["images"]) == ["message:1/0", "message:1/1"]
