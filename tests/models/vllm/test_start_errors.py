"""The lines are vLLM 0.32's own; those about GPUs are from its source."""

import pytest

from langgraph_mai.models.vllm.start_errors import explain_start

CORE = "(EngineCore pid=22041) ERROR 11-30 12:20:31 [core.py:1510] "
WORKER = "(VllmWorker-0 pid=22054) ERROR 11-30 12:20:29 [multiproc_executor.py:953] "
SERVER_ENDS = [
    (
        f"{CORE}Exception: WorkerProc initialization failed due to an exception in a background "
        "process. See stack trace for root cause."
    ),
    "Process EngineCore:",
    (
        "RuntimeError: Engine core initialization failed. See root cause above. "
        "Failed core proc(s): "
        "{'EngineCore': 1}"
    ),
]
CACHE_TOO_SMALL = (
    "ValueError: To serve at least one request with the model's max seq len (262144), (36.0 GiB "
    "KV cache is needed, which is larger than the available KV cache memory (3.91 GiB). {fits}Try "
    "increasing `gpu_memory_utilization` (which also controls CPU memory on the CPU backend) or "
    "decreasing `max_model_len` when initializing the engine. See "
    "https://docs.vllm.ai/en/latest/configuration/conserving_memory/ for more details."
)
SENTENCES = [
    (
        (
            f"{WORKER}NotImplementedError: Speculative Decoding with draft models or parallel "
            "drafting does not support M-RoPE yet"
        ),
        "no place for a vision-language draft of the model",
    ),
    (
        f"{WORKER}AttributeError: 'InternVLConfig' object has no attribute 'image_token_index'",
        "no place for a vision-language draft of the model",
    ),
    (
        (
            f"{CORE}RuntimeError: Worker failed with error 'aot_compile is not supported by the "
            "current configuration. Please make sure torch.compile is enabled with the latest "
            "version of PyTorch (current using torch: 2.13.0+cpu)', please check the stack trace "
            "above for the root cause"
        ),
        "torch.compile is off here; set its engine option enforce_eager to true",
    ),
    ("    sock.bind(addr)\nOSError: [Errno 98] Address already in use", "its port is in use"),
    (
        (
            f"{WORKER}ValueError: Available memory on node 0 (19.39/23.54 GiB) on "
            "startup is less than "
            "desired CPU memory utilization (0.99, 23.31 GiB). On the CPU backend, the "
            "`--gpu-memory-utilization` flag controls the fraction of CPU memory reserved."
        ),
        "is to take 23.31 GiB (memory: 0.99) and 19.39 of 23.54 GiB are free; lower its memory",
    ),
    (
        (
            f"{WORKER}ValueError: Free memory on device cuda:0 (30.1/47.4 GiB) on "
            "startup is less than "
            "desired GPU memory utilization (0.7, 33.18 GiB). Decrease GPU memory utilization or "
            "reduce GPU memory used by other processes."
        ),
        "is to take 33.18 GiB (memory: 0.7) and 30.1 of 47.4 GiB are free; lower its memory",
    ),
    (
        (
            f"{WORKER}ValueError: Available memory on node 0 (20.46/23.54 GiB) on "
            "kv cache allocation "
            "is less than requested memory for kv (838.19 GiB). Decrease --kv-cache-memory-bytes, "
            "VLLM_CPU_KVCACHE_SPACE, or reduce CPU memory used by other processes."
        ),
        "838.19 GiB for its KV cache and 20.46 of 23.54 GiB are free",
    ),
    (
        (
            f"{CORE}ValueError: No available memory for the cache blocks. Try increasing "
            "`gpu_memory_utilization` when initializing the engine."
        ),
        "too little of its share of the memory for a KV cache; raise its memory",
    ),
    (
        CORE + CACHE_TOO_SMALL.format(fits=""),
        "too little of its share of the memory for a KV cache; raise its memory",
    ),
    (
        CORE
        + CACHE_TOO_SMALL.format(
            fits="Based on the available memory, the estimated maximum model length is 28416. "
        ),
        (
            "A context of 262144 tokens of the model 'org/small' needs 36.0 GiB "
            "of KV cache and there "
            "are 3.91; set its engine option max_model_len to 28416 at most"
        ),
    ),
    (
        f"{WORKER}torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.32 GiB.",
        "There is not enough memory for the model 'org/small'",
    ),
    (
        "terminate called after throwing an instance of 'std::bad_alloc'",
        "There is not enough memory for the model 'org/small'",
    ),
    (
        (
            "(EngineCore pid=2) ERROR 11-30 12:20:12 [multiproc_executor.py:315] Worker proc "
            "VllmWorker-0 died unexpectedly (exit code: -9), shutting down executor."
        ),
        "was killed from outside, by hand or because main memory ran out",
    ),
    (
        (
            "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig\n"
            "  Value error, User-specified max_model_len (100000) is greater than the derived "
            "max_model_len (max_position_embeddings=2048.0 or model_max_length=None in model's "
            "config.json)."
        ),
        "takes 2048 tokens at most, and max_model_len asks for 100000",
    ),
    (
        (
            "huggingface_hub.errors.HFValidationError: Repo id must be in the form 'repo_name' or "
            "'namespace/repo_name': '/nowhere/model'. Use `repo_type` argument if needed."
        ),
        "is no folder with a config.json, and no model of the hub",
    ),
    (
        "  Value error, Invalid repository ID or local directory specified: 'org/small'.",
        "is no folder with a config.json, and no model of the hub",
    ),
    (
        (
            "huggingface_hub.errors.LocalEntryNotFoundError: Cannot find an appropriate cached "
            "snapshot folder for the specified revision on the local disk and outgoing traffic has "
            "been disabled."
        ),
        "neither a folder nor in the local hub cache",
    ),
    (
        (
            "huggingface_hub.errors.GatedRepoError: 401 Client Error.\nCannot "
            "access gated repo for "
            "url https://huggingface.co/api/models/org/small."
        ),
        "is gated or private: accept its terms",
    ),
    (
        (
            "  Value error, Model architectures "
            "['Qwen9VLForConditionalGeneration'] are not supported "
            "for now. Supported architectures: dict_keys(['AfmoeForCausalLM', "
            "'ApertusForCausalLM'])"
        ),
        "it does not know the architecture Qwen9VLForConditionalGeneration; update vLLM",
    ),
    (
        (
            "  Value error, The checkpoint you are trying to load has model type `qwen9_vl` but "
            "Transformers does not recognize this architecture."
        ),
        "has the type qwen9_vl, which the installed transformers does not know",
    ),
    (
        (
            "ValueError: Bfloat16 is only supported on GPUs with compute "
            "capability of at least 8.0. "
            "Your Tesla T4 GPU has compute capability 7.5."
        ),
        "set dtype: float16",
    ),
    (
        f"{WORKER}RuntimeError: Cannot find any model weights with `org/small`",
        "holds no weights",
    ),
    (
        (
            "OSError: Can't load image processor for '/models/small'. If you "
            "were trying to load it "
            "from 'https://huggingface.co/models', make sure"
        ),
        "hold no image processor settings",
    ),
    (
        (
            "/env/bin/python: Error while finding module specification for "
            "'vllm.entrypoints.openai.api_server' (ModuleNotFoundError: No module named 'vllm')"
        ),
        'pip install "langgraph-mai[vllm]"',
    ),
    ("RuntimeError: operator torchvision::nms does not exist", "built for another torch"),
    ("ModuleNotFoundError: No module named 'timm'", "needs the package 'timm'"),
    ("RuntimeError: Failed to infer device type, please set the variable", "finds no GPU"),
    ("api_server.py: error: unrecognized arguments: --no-such-flag", "take --no-such-flag"),
    (
        "api_server.py: error: argument --block-size: invalid choice: '7'",
        "refuses an engine option of the model 'org/small': --block-size: invalid choice",
    ),
    (
        f"{WORKER}ZeroDivisionError: no heads are left for rank 3",
        "vLLM cannot run the model 'org/small': ZeroDivisionError: no heads are left for rank 3",
    ),
]


@pytest.mark.parametrize(("lines", "sentence"), SENTENCES)
def test_the_cause_is_one_sentence(lines, sentence):
    """Whichever process wrote it, and though the server's own last word is general."""
    said = explain_start([*lines.splitlines(), *SERVER_ENDS], "org/small")
    assert sentence in said
    assert "\n" not in said
    assert said[0].isupper() or said.startswith("vLLM")


REFUSED = """\
ValidationError: 2 validation errors for ModelConfig
max_model_len
  Input should be a valid integer, unable to parse string as an integer [type=int_parsing, \
input_value='lots', input_type=str]
    For further information visit https://errors.pydantic.dev/2.12/v/int_parsing
hf_overrides.dict[str,any]
  Input should be a valid dictionary [type=dict_type, input_value=[1, 2], input_type=list]
    For further information visit https://errors.pydantic.dev/2.12/v/dict_type"""


@pytest.mark.parametrize("before", ["", CORE])
def test_refused_settings_are_named_with_the_reason(before):
    lines = [before + line for line in REFUSED.splitlines()]
    said = explain_start([*lines, *SERVER_ENDS], "org/small")
    assert said == (
        "vLLM refuses settings of the model 'org/small': max_model_len='lots' (Input should be a "
        "valid integer, unable to parse string as an integer); hf_overrides.dict[str,any]=[1, 2] "
        "(Input should be a valid dictionary)"
    )


@pytest.mark.parametrize("kind", ["Value error", "Assertion failed"])
def test_settings_that_do_not_fit_each_other_are_told_without_their_values(kind):
    lines = [
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for ParallelConfig",
        f"  {kind}, rank 3 has no head [type=e, input_value=ArgsKwargs(()), input_type=ArgsKwargs]",
    ]
    said = explain_start([*lines, *SERVER_ENDS], "org/small")
    assert said == "vLLM refuses settings of the model 'org/small': rank 3 has no head"


def test_lines_of_an_engine_in_this_process_are_read_too():
    line = (
        "ERROR 2026-11-30 12:20:29,117 [vllm.v1.engine.core] RuntimeError: CUDA "
        "error: out of memory"
    )
    assert "not enough memory" in explain_start([line], "org/small")


@pytest.mark.parametrize(
    "warning",
    [
        (
            "WARNING 11-30 12:19:13 [interface.py:1] Failed to import from vllm._C: "
            "ModuleNotFoundError(\"No module named 'vllm._C'\")"
        ),
        "(APIServer pid=7) INFO 11-30 12:19:13 [launcher.py:1] retrying: Address already in use",
    ],
)
def test_warnings_are_no_cause(warning):
    said = explain_start([warning, "ValueError: 7 is not a layer"], "org/small")
    assert said == "vLLM cannot run the model 'org/small': ValueError: 7 is not a layer"


@pytest.mark.parametrize("lines", [[], ["INFO 11-30 12:19:13 [a.py:1] all is well"]])
def test_an_end_without_a_reason_points_to_the_log(lines):
    assert explain_start(lines, "org/small").endswith("it ended without saying why; see its log.")


def test_an_engine_that_dies_in_mid_run_is_told_apart():
    line = (
        "(APIServer pid=31768) ERROR 11-30 12:33:40 [async_llm.py:906] vllm.v1.engine.exceptions."
        "EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root "
        "cause."
    )
    assert "its engine was killed from outside, or crashed" in explain_start([line], "org/small")


def test_a_long_error_is_cut():
    said = explain_start([f"ValueError: {'many words ' * 200}"], "org/small")
    assert len(said) < 400


def test_names_with_braces_are_shown_as_they_are():
    assert "'{0}'" in explain_start(["OSError: [Errno 98] Address already in use"], "{0}")
