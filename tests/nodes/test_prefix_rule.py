"""The prefix rule, in token ids: prompts about one question differ only after the question."""

from itertools import takewhile

import pytest
from PIL import Image
from transformers import AutoProcessor

from langgraph_mai import load_pair, load_prompts
from langgraph_mai.configs import list_prompts
from langgraph_mai.models.chat_format import chat_turns
from langgraph_mai.models.images import block_image
from langgraph_mai.nodes.model_call import Agent, agent_request
from langgraph_mai.nodes.prepare import read_task
from langgraph_mai.nodes.prompts import question_text

QUESTIONS = [
    ("Is there a red circle?", [], "yes_no"),
    ("How many circles are there in this picture", [], "number"),
    ("Which one is there?", ["a red circle", "a blue square"], "choice"),
    ("Trailing spaces and a tab \t ", [], "short_text"),
]


@pytest.fixture(scope="module", params=["demo", "qwen_checkpoint", "internvl_checkpoint"])
def processor(request):
    if request.param == "demo":
        return AutoProcessor.from_pretrained(load_pair().small.model)
    return AutoProcessor.from_pretrained(request.getfixturevalue(request.param))


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    path = tmp_path_factory.mktemp("pictures") / "red.png"
    Image.new("RGB", (128, 128), "red").save(path)
    return str(path)


def token_ids(processor, messages):
    turns, images = chat_turns(messages, lambda block: block_image(block).image)
    text = processor.apply_chat_template(turns, add_generation_prompt=True, tokenize=False)
    return processor(text=[text], images=images, return_tensors="pt")["input_ids"][0].tolist()


@pytest.mark.parametrize("prompts", list_prompts())
@pytest.mark.parametrize(("question", "choices", "answer_type"), QUESTIONS)
def test_prompts_share_images_question_and_choices(
    processor, image, prompts, question, choices, answer_type
):
    agent = Agent("large", load_pair().large, load_prompts(prompts))
    given = {"question": question, "choices": choices, "answer_type": answer_type}
    task = read_task({**given, "images": [image, image]})
    styles = [("direct", ""), ("explain", ""), ("reason", ""), ("transfer", "Row 1: no. So no.")]
    ids = [
        token_ids(processor, agent_request(agent, style, task, reasoning).messages)
        for style, reasoning in styles
    ]
    shared = [row[0] for row in takewhile(lambda row: len(set(row)) == 1, zip(*ids, strict=False))]
    asked = question_text(agent.prompts, question, choices)
    assert asked in processor.tokenizer.decode(shared)
    image_tokens = ids[0].count(processor.image_token_id)
    assert shared.count(processor.image_token_id) == image_tokens > 0
