"""LangChain's own test suites, on the demo model.

What does not apply to a local vision model without tools (tools, structured output, PDF, audio) is
off in the suite's own properties. The picture that the suite would download is replaced by one made
here.
"""

import langchain_tests.integration_tests
import langchain_tests.unit_tests
import pytest

from langgraph_mai import ChatTransformers


class TestUnit(langchain_tests.unit_tests.ChatModelUnitTests):
    @property
    def chat_model_class(self):
        return ChatTransformers

    @property
    def chat_model_params(self):
        return {"model": "some/model"}


@pytest.mark.usefixtures("local_download")
class TestIntegration(langchain_tests.integration_tests.ChatModelIntegrationTests):
    @pytest.fixture(autouse=True)
    def _weights(self, demo_weights):
        self._small, self._large = str(demo_weights / "small"), str(demo_weights / "large")

    @property
    def chat_model_class(self):
        return ChatTransformers

    @property
    def chat_model_params(self):
        return {"model": self._small, "dtype": "float32", "device": "cpu"}

    @property
    def model_override_value(self):
        return self._large

    @property
    def supports_image_inputs(self):
        return True
