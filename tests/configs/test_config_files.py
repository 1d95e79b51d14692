import re
import traceback
from pathlib import Path

import pytest
import yaml

from langgraph_mai import ConfigError, PromptsConfig, load_prompts
from langgraph_mai.configs import SparseTransfer, list_pairs, list_prompts, load_pair_config

ROOT = Path(__file__).parents[2]
PAIR = {"small": {"model": "org/small"}, "large": {"model": "org/large"}}


def refused(load, given):
    """What is wrong, in one sentence."""
    with pytest.raises(ConfigError) as error:
        load(given)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 1000
    return str(error.value)


def write(tmp_path, content, name="mine.yaml"):
    path = tmp_path / name
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path


def test_pairs_and_prompts_of_the_package():
    pairs = "qwen3-vl-2b-4b qwen3-vl-2b-8b qwen3-vl-2b-8b-thinking qwen3-vl-2b-8b-vllm"
    pairs += " qwen3-vl-4b-8b internvl3.5-1b-8b internvl3.5-2b-14b internvl3.5-2b-8b"
    pairs += " demo demo-server demo-vllm"
    assert set(list_pairs()) == set(pairs.split())
    assert {"default", "demo"} <= set(list_prompts())
    for name in list_pairs():
        pair = load_pair_config(name)
        assert pair.description
        assert pair.small.model != pair.large.model
        assert isinstance(load_prompts(pair.prompts), PromptsConfig)


FAULTS = [
    (PAIR | {"smal": {}}, "unknown key 'smal'; write 'small' if you mean that."),
    ({"small": PAIR["small"]}, "the key 'large' is missing; add it."),
    (PAIR | {"large": {"model": 7}}, "'large.model': Input should be a valid string"),
    (PAIR | {"large": {"model": "x", "dtype": "float8"}}, "'large.dtype': Input should be"),
    (PAIR | {"large": {"model": "x", "max_pixels": 0}}, "'large.max_pixels'"),
    (
        PAIR | {"backend": "magic"},
        "'backend': Input should be 'transformers', 'vllm' or 'server'",
    ),
    ("- just\n- a list\n", "must hold keys and values, not list."),
    ("", "must hold keys and values, not NoneType."),
    ("small: [1,\nlarge: }", "cannot be read as YAML"),
    ("small: {model: x, revision: 2024-13-45}", "cannot be read as YAML"),
    ("[" * 5000, "cannot be read as YAML"),
    ("small: {model: x}\nlarge: {model: y}\nsmall: {model: z}", "'small' is given twice"),
    ("small: {model: x, model: y}\nlarge: {model: z}", "'model' is given twice"),
    ("small: &a {model: x, foo: *a}\nlarge: *a", "unknown key 'small.foo'"),
    (PAIR | {"backend": ["x" * 500] * 500}, "'backend': Input should be"),
    (PAIR | {"backend": "server"}, "the backend server needs small.base_url"),
    (PAIR | {"large": {"model": "x", "backend": "server"}}, "needs large.base_url"),
    (PAIR | {"large": {"model": "x", "base_url": "localhost:1"}}, "must be an http(s) URL"),
    (PAIR | {"large": {"model": "x", "base_url": "http://a:b@c/v1"}}, "no user or password"),
    (PAIR | {"large": {"model": "x", "api_key": "secret"}}, "unknown key 'large.api_key'"),
    (PAIR | {"large": {"model": "x", "memory": 1.5}}, "'large.memory'"),
    (
        PAIR | {"backend": "vllm", "large": {"model": "x", "memory": 0.9}},
        "shares of one GPU and add up to 1.2",
    ),
    (PAIR | {"sparse": {"layers": 3}}, "unknown key 'sparse.layers'; write 'layer' if you"),
    (PAIR | {"sparse": {"share": 0}}, "'sparse.share': Input should be greater than 0"),
    *(
        (PAIR | {"sparse": {name: value}}, f"'sparse.{name}': must be a number, not true or")
        for name in ("layer", "share", "query")
        for value in (True, False)
    ),
    (PAIR | {"sparse": {"keep": "best"}}, "'sparse.keep': Input should be 'attention', "),
    (PAIR | {"selecter": "small"}, "unknown key 'selecter'; write 'selector' if you mean"),
    (PAIR | {"selector": "large"}, "'selector': Input should be small, or a model with keys"),
    (PAIR | {"selector": ["x"]}, "'selector': Input should be small, or a model with keys"),
    (PAIR | {"selector": {"dtype": "auto"}}, "the key 'selector.model' is missing"),
    (PAIR | {"selector": {"model": "x", "dtyp": 1}}, "unknown key 'selector.dtyp'; write"),
    (
        PAIR | {"selector": {"model": "x", "backend": "vllm"}},
        "runs on transformers, for vllm gives no attention; remove selector.backend",
    ),
    (
        PAIR | {"backend": "vllm", "selector": "small"},
        "selector: small needs a small model that runs on transformers, not on vllm",
    ),
    ("smal:\n  model: a\nlarge:\n  model: b\n", "unknown key 'smal'"),
]


def test_what_is_wrong_in_a_file_is_one_sentence(tmp_path):
    for content, sentence in FAULTS:
        path = write(tmp_path, content)
        message = refused(load_pair_config, path)
        assert sentence in message
        assert str(path) in message


def test_unknown_names_are_refused_with_a_suggestion():
    pairs = [
        ("demoo", "There is no pair 'demoo'; did you mean 'demo'?"),
        ("qwen3-vl-2b-8", "did you mean 'qwen3-vl-2b-8b'?"),
        ("zzz", "There is no pair 'zzz'; known: demo, "),
        ("./mine.yaml", "There is no pair file './mine.yaml'."),
        ("~nobody-of-this-name/mine.yaml", "There is no pair file '~nobody-of-this-name/"),
        ("x" * 3000, "There is no pair 'xxx"),
        ("x" * 3000 + ".yaml", "There is no pair file 'xxx"),
        ("a\0b.yaml", "There is no pair file"),
        ("\udce9.yaml", "There is no pair file"),
        (None, "The pair cannot be None: give a name or the path of a YAML file."),
        ({"small": {}}, "The pair cannot be {'small': {}}: give a name"),
        (b"demo", "The pair cannot be b'demo'"),
    ]
    prompts = [
        ("defualt", "There are no prompts 'defualt'; did you mean 'default'?"),
        ("./no.yaml", "There is no prompts file './no.yaml'."),
        ({"direct": 1}, "The prompts cannot be {'direct': 1}"),
    ]
    for load, cases in ((load_pair_config, pairs), (load_prompts, prompts)):
        for name, sentence in cases:
            assert sentence in refused(load, name)


def test_relative_paths_and_folders_beside_the_file_start_there(tmp_path, monkeypatch):
    """Wherever the program runs; a folder beside the file goes before a hub name."""
    pairs = tmp_path / "pairs"
    (pairs / "weights" / "small").mkdir(parents=True)
    (pairs / "mine.yaml").touch()
    (pairs / "default").touch()
    monkeypatch.chdir(tmp_path)
    cases = [
        ("./prompts.yaml", pairs / "prompts.yaml"),
        ("mine.yaml", pairs / "mine.yaml"),
        ("default", "default"),
    ]
    models = [
        ("./weights/none", "../large", pairs / "weights" / "none", tmp_path / "large"),
        ("weights/small", "o/m", pairs / "weights" / "small", "o/m"),
    ]
    for prompts, texts in cases:
        for small, large, first, second in models:
            pair = {"prompts": prompts, "small": {"model": small}, "large": {"model": large}}
            config = load_pair_config(write(pairs, pair, "pair.yaml"))
            assert (config.small.model, config.large.model) == (str(first), str(second))
            assert config.prompts == str(texts)


def test_prompts_that_cannot_work_are_refused(tmp_path):
    def sentence(**change):
        return refused(load_prompts, write(tmp_path, load_prompts().model_dump() | change))

    cases = [
        ("direct", {"instruction": " Answer."}, "must start with a letter"),
        ("direct", {"instruction": ""}, "at least 1 character"),
        ("reason", {"max_tokens": 0}, "greater than 0"),
        ("transfer", {"instruction": "Answer."}, "must hold {reasoning} exactly once"),
    ]
    for style, change, expected in cases:
        whole = load_prompts().model_dump()[style] | change
        assert re.search(rf"'{style}\..*{expected}", sentence(**{style: whole}))
    choices = """{letter}. | {text} | {letter}: {txt} | {} | {} {} | {0} {1} | {letter}} {text}
        | {letter} {text | {letter} {text.name} | {letter} {text[name]} | {letter} {text[0]} |
        | {letter} {text:d} | {letter} {text:.1} | {letter} {text:>999999999} | {letter!r} {text}
        | {{letter}} {{text}}"""
    for choice in map(str.strip, choices.split("|")):
        assert re.search("'choice': .*must hold {letter} and {text}", sentence(choice=choice))
    for kind in ("yesno", "auto", "yes-no", "Number", 3):
        message = sentence(answer_hints={kind: "Answer."})
        assert f"'answer_hints.{kind}': Input should be 'yes_no'" in message


def test_a_choice_may_look_otherwise(tmp_path):
    for choice in ("({letter}) {text}", "{text} = {letter}", "{{{letter}}} {text}"):
        content = load_prompts().model_dump() | {"choice": choice}
        assert load_prompts(write(tmp_path, content)).choice == choice


def test_models_on_one_gpu_share_its_memory_whatever_it_is_called(tmp_path):
    def content(small, large):
        devices = {"small": small, "large": large}
        models = {
            role: {"model": f"org/{role}", "memory": 0.6, "device": device}
            for role, device in devices.items()
        }
        return write(tmp_path, {"backend": "vllm", **models})

    shared = ["auto auto", "auto cuda", "auto cuda:0", "cuda:0 cuda", "cuda:1 cuda:1"]
    for devices in shared:
        assert "shares of one GPU" in refused(load_pair_config, content(*devices.split()))
    for small, large in (("cuda", "cuda:1"), ("auto", "cpu")):
        assert load_pair_config(content(small, large)).large.device == large


def test_sparse_transfer_and_its_selector_have_keys_of_their_own(tmp_path):
    pair = load_pair_config(write(tmp_path, PAIR))
    assert (pair.sparse, pair.selector) == (SparseTransfer(), None)
    sparse = {"layer": 22, "share": 0.5, "query": -3, "keep": "last"}
    pair = load_pair_config(write(tmp_path, PAIR | {"sparse": sparse, "selector": "small"}))
    assert (pair.sparse, pair.selector) == (SparseTransfer(**sparse), "small")
    (tmp_path / "copies" / "large").mkdir(parents=True)
    for name in ("./copies/large", "copies/large"):  # beside the file
        content = {"backend": "vllm", "selector": {"model": name, "dtype": "bfloat16"}}
        selector = load_pair_config(write(tmp_path, PAIR | content)).selector
        assert selector.model == str(tmp_path / "copies" / "large")
        assert selector.dtype == "bfloat16"


def test_the_selector_that_a_pair_of_the_package_proposes_can_be_used(tmp_path):
    text = (ROOT / "configs" / "pairs" / "qwen3-vl-2b-8b-vllm.yaml").read_text()
    assert load_pair_config("qwen3-vl-2b-8b-vllm").selector is None
    proposed = re.sub(r"^# (?=selector:|  )", "", text, flags=re.MULTILINE)
    pair = load_pair_config(write(tmp_path, proposed))
    assert pair.selector.model == pair.large.model


def test_merged_keys_may_be_overridden(tmp_path):
    content = "small: &a {model: x, dtype: float16}\nlarge: &b {<<: *a, model: y}\nprompts: demo\n"
    pair = load_pair_config(write(tmp_path, content))
    assert (pair.large.model, pair.large.dtype) == ("y", "float16")


def test_one_word_changes_the_backend_of_a_pair_or_a_model(tmp_path):
    large = {"model": "org/large", "memory": 0.5, "base_url": "http://gpu-host:8000/v1/"}
    small = {"model": "org/small", "attention": "eager", "base_url": "http://gpu-host:8001/v1"}
    for backend in ("transformers", "vllm", "server"):
        content = {"backend": backend, "small": small, "large": large}
        pair = load_pair_config(write(tmp_path, content))
        assert pair.backend == backend
        assert (pair.memory_of("small"), pair.memory_of("large")) == (0.3, 0.5)
    pair = load_pair_config(write(tmp_path, PAIR | {"large": large | {"backend": "server"}}))
    assert (pair.backend_of("small"), pair.backend_of("large")) == ("transformers", "server")


def test_an_address_that_cannot_be_one_is_refused_and_others_get_one_form(tmp_path):
    def with_address(address):
        return write(tmp_path, PAIR | {"large": {"model": "x", "base_url": address}})

    no_url, port = "must be an http(s) URL", "a port from 1 to 65535"
    addresses = {
        "nonsense": no_url,
        "ftp://host/v1": no_url,
        "http:///v1": no_url,
        "http://[::1/v1": no_url,
        "http://h:abc/v1": port,
        "http://h:99999/v1": port,
        "http://h:0/v1": port,
        "http://h:/v1": port,
        "http://[::1]:x/v1": port,
        "http://h o/v1": "no spaces or control characters",
        "http://h\x00o/v1": "no spaces or control characters",
        f"http://{'a' * 70}.x/v1": "a host that can exist",
        "http://h/v1#x": "no query and no fragment",
    }
    for address, sentence in addresses.items():
        message = refused(load_pair_config, with_address(address))
        assert "'large.base_url'" in message
        assert sentence in message
    forms = {
        " http://h:8000/v1 ": "http://h:8000/v1",
        "http://h/v1//": "http://h/v1",
        "HTTPS://h/v1": "https://h/v1",
        "http://[::1]:8000/v1": "http://[::1]:8000/v1",
        "http://[::1]/v1": "http://[::1]/v1",
    }
    for address, same in forms.items():
        assert load_pair_config(with_address(address)).large.base_url == same


def test_a_secret_in_the_wrong_place_is_not_repeated(tmp_path):
    models = [
        {"base_url": "http://user:hunter2@h/v1"},
        {"base_url": "http://hunter2@h:abc/v1"},
        {"base_url": "//user:hunter2@h/v1"},
        {"base_url": "http://h/v1?key=hunter2"},
        {"base_url": ["http://h/hunter2"]},
        {"api_key_env": "sk-hunter2"},
        {"device": 1, "dtype": "http://user:hunter2@h/v1"},
        {"api_key": "hunter2"},
    ]
    for large in models:
        with pytest.raises(ConfigError, match=r"large\.") as error:
            load_pair_config(write(tmp_path, PAIR | {"large": {"model": "x"} | large}))
        assert "hunter2" not in "".join(traceback.format_exception(error.value))
