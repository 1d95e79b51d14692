import pytest
import yaml

from langgraph_mai import ConfigError, PromptsConfig, load_prompts
from langgraph_mai.configs import list_pairs, list_prompts, load_pair_config

PAIR = {"small": {"model": "org/small"}, "large": {"model": "org/large"}}


def write(tmp_path, content, name="mine.yaml"):
    path = tmp_path / name
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path


@pytest.mark.parametrize("name", list_pairs())
def test_every_pair_of_the_package_is_valid(name):
    pair = load_pair_config(name)
    assert pair.description
    assert pair.small.model != pair.large.model
    assert isinstance(load_prompts(pair.prompts), PromptsConfig)


def test_the_pairs_that_come_with_the_package():
    assert set(list_pairs()) == {
        "demo",
        "internvl3.5-1b-8b",
        "internvl3.5-2b-14b",
        "internvl3.5-2b-8b",
        "qwen3-vl-2b-4b",
        "qwen3-vl-2b-8b",
        "qwen3-vl-4b-8b",
    }
    assert {"default", "demo"} <= set(list_prompts())


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (PAIR | {"smal": {}}, "unknown key 'smal'; remove it or correct its name."),
        ({"small": PAIR["small"]}, "the key 'large' is missing; add it."),
        (PAIR | {"large": {"model": 7}}, "'large.model': Input should be a valid string"),
        (PAIR | {"large": {"model": "x", "dtype": "float8"}}, "'large.dtype': Input should be"),
        (PAIR | {"large": {"model": "x", "max_pixels": 0}}, "'large.max_pixels'"),
        (PAIR | {"backend": "magic"}, "'backend': Input should be 'transformers'"),
        ("- just\n- a list\n", "must hold keys and values, not list."),
        ("", "must hold keys and values, not NoneType."),
        ("small: [1,\nlarge: }", "cannot be read as YAML"),
    ],
)
def test_what_is_wrong_in_a_file_is_one_sentence(tmp_path, content, sentence):
    path = write(tmp_path, content)
    with pytest.raises(ConfigError) as error:
        load_pair_config(path)
    assert sentence in str(error.value)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("demoo", "There is no pair 'demoo'; did you mean 'demo'?"),
        ("qwen3-vl-2b-8", "did you mean 'qwen3-vl-2b-8b'?"),
        ("zzz", "There is no pair 'zzz'; known: demo, "),
        ("./mine.yaml", "There is no pair file './mine.yaml'."),
    ],
)
def test_an_unknown_pair_is_named_with_a_suggestion(name, sentence):
    with pytest.raises(ConfigError) as error:
        load_pair_config(name)
    assert sentence in str(error.value)


def test_relative_paths_start_at_the_file(tmp_path):
    pair = {
        "prompts": "./prompts.yaml",
        "small": {"model": "./weights/small"},
        "large": {"model": "../large"},
    }
    (tmp_path / "pairs").mkdir()
    config = load_pair_config(write(tmp_path / "pairs", pair))
    assert config.small.model == str(tmp_path / "pairs" / "weights" / "small")
    assert config.large.model == str(tmp_path / "large")
    assert config.prompts == str(tmp_path / "pairs" / "prompts.yaml")


@pytest.mark.parametrize(
    ("style", "change", "sentence"),
    [
        ("direct", {"instruction": " Answer."}, "must start with a letter"),
        ("direct", {"instruction": ""}, "at least 1 character"),
        ("reason", {"max_tokens": 0}, "greater than 0"),
        ("transfer", {"instruction": "Answer."}, "must hold {reasoning} exactly once"),
    ],
)
def test_prompts_that_cannot_work_are_refused(tmp_path, style, change, sentence):
    content = load_prompts().model_dump()
    content[style] |= change
    with pytest.raises(ConfigError) as error:
        load_prompts(write(tmp_path, content))
    assert sentence in str(error.value)
    assert f"'{style}." in str(error.value)
