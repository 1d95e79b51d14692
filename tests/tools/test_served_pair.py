import socket

import pytest
import yaml

from langgraph_mai.configs import PairConfig, SparseTransfer, load_pair_config
from langgraph_mai.tools.model_servers import base_url, pair_yaml, served_pair

URLS = {"small": "http://a:8101/v1", "large": "http://b:8102/v1"}


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", "http://127.0.0.1:8101/v1"),
        ("gpu-a", "http://gpu-a:8101/v1"),
        ("::1", "http://[::1]:8101/v1"),
        ("0.0.0.0", f"http://{socket.gethostname()}:8101/v1"),
        ("::", f"http://{socket.gethostname()}:8101/v1"),
    ],
)
def test_clients_get_an_address_that_they_can_reach(host, expected):
    assert base_url(host, 8101) == expected


def test_what_is_printed_is_a_pair_file_with_the_client_settings_of_the_pair(tmp_path):
    pair = PairConfig.model_validate(
        {
            "backend": "vllm",
            "prompts": "demo",
            "small": {"model": "org/a", "max_pixels": 1000, "memory": 0.2, "engine": {"seed": 1}},
            "large": {"model": "org/b", "timeout": 9.5, "api_key_env": "MY_KEY", "retries": 0},
        }
    )
    path = tmp_path / "served.yaml"
    path.write_text(pair_yaml(served_pair(pair, "mine", URLS)))
    read = load_pair_config(str(path))
    assert (read.backend, read.prompts) == ("server", "demo")
    assert (read.small.model, read.small.base_url) == ("org/a", URLS["small"])
    assert (read.large.model, read.large.base_url) == ("org/b", URLS["large"])
    assert (read.small.max_pixels, read.large.timeout) == (1000, 9.5)
    assert (read.large.api_key_env, read.large.retries) == ("MY_KEY", 0)
    assert set(yaml.safe_load(path.read_text())["small"]) == {"model", "base_url", "max_pixels"}


def test_a_model_on_a_server_elsewhere_keeps_its_address():
    pair = PairConfig.model_validate(
        {
            "small": {"model": "org/a"},
            "large": {"model": "org/b", "backend": "server", "base_url": "http://c:1/v1"},
        }
    )
    served = served_pair(pair, "mine", {"small": URLS["small"]})
    assert served["backend"] == "server"
    assert served["large"] == {"model": "org/b", "base_url": "http://c:1/v1"}


def test_a_served_pair_selects_as_the_pair_does(tmp_path):
    pair = load_pair_config("demo-vllm")
    assert pair.selector
    changed = pair.model_copy(update={"sparse": SparseTransfer(share=0.5)})
    path = tmp_path / "served.yaml"
    path.write_text(pair_yaml(served_pair(changed, "demo-vllm", URLS)))
    read = load_pair_config(str(path))
    assert read.selector == pair.selector
    assert read.sparse == SparseTransfer(share=0.5)
    assert "sparse" not in served_pair(pair, "demo-vllm", URLS)


def test_one_of_two_models_is_a_part_of_a_pair_file():
    pair = load_pair_config("demo-vllm")
    assert list(served_pair(pair, "demo-vllm", {"large": URLS["large"]})) == ["large"]
