from fakes import PROMPTS, models

from langgraph_mai import create_mai

EDGES = {
    ("__start__", "prepare", False),
    ("prepare", "small_agent", False),
    ("prepare", "large_agent", False),
    ("small_agent", "verification", False),
    ("large_agent", "verification", False),
    ("verification", "respond", True),
    ("verification", "small_reasoning", True),
    ("small_reasoning", "reasoning_verification", False),
    ("reasoning_verification", "respond", True),
    ("reasoning_verification", "reasoning_transfer", True),
    ("reasoning_transfer", "respond", False),
    ("respond", "__end__", False),
}


def test_the_drawing_has_every_edge():
    drawn = create_mai(*models(), prompts=PROMPTS).get_graph()
    assert {(edge.source, edge.target, edge.conditional) for edge in drawn.edges} == EDGES
    assert "small_reasoning --> reasoning_verification" in drawn.draw_mermaid()


def test_input_and_output_have_schemas():
    graph = create_mai(*models(), prompts=PROMPTS)
    given, result = graph.get_input_jsonschema(), graph.get_output_jsonschema()
    assert set(given["properties"]) == {
        "messages",
        "question",
        "images",
        "choices",
        "answer_type",
    }
    assert set(result["properties"]) == {
        "answer",
        "value",
        "messages",
        "route",
        "fallback",
        "confidence",
        "gate",
        "calls",
    }
    assert result["properties"]["route"]["enum"][-3:] == ["direct", "reasoned", "transferred"]
