import pytest
from langchain_core.messages import HumanMessage
from PIL import Image

from langgraph_mai.models.cold_start import forget
from langgraph_mai.models.images import image_block, image_reference
from langgraph_mai.models.transformers.chat import ChatTransformers


@pytest.fixture
def question():
    picture = image_reference(Image.new("RGB", (128, 128), "navy"))
    return [HumanMessage([image_block(picture), {"type": "text", "text": "Is it red?"}])]


def test_what_is_forgotten_is_computed_again(checkpoint, question):
    model = ChatTransformers(model=str(checkpoint), device="cpu", max_tokens=4)

    def cached():
        message = model.invoke(question)
        return message.usage_metadata["input_token_details"]["cache_read"]

    forget([model])
    assert cached() == 0
    assert cached() > 0
    forget([model, object()])  # others are left alone
    assert cached() == 0
