"""The prompts of the public benchmarks."""

import public_files as files
import pytest

from langgraph_mai.benchmarks.datasets import BENCHMARKS, load_benchmark
from langgraph_mai.configs import load_prompts
from langgraph_mai.nodes.prompts import style_instruction, transfer_instruction

ROWS = {
    "pope": files.pope_rows(),
    "mmmu": files.mmmu_rows("Art"),
    "mmbench": files.mmbench_rows(),
    "chartqa": files.chartqa_rows(),
    "infovqa": files.infovqa_rows(),
    "realworldqa": files.realworldqa_rows(),
}


@pytest.fixture(params=[name for name in BENCHMARKS if name not in ("shapes", "own")])
def public(request, tmp_path):
    path = files.write_parquet(tmp_path / "rows.parquet", ROWS[request.param])
    return load_benchmark(request.param, data=path, folder=tmp_path)


def test_limits_belong_to_the_style(public):
    prompts = load_prompts(public.prompts)
    # The public kits cut E and R off at 16 to 128 tokens.
    assert prompts.direct.max_tokens == prompts.transfer.max_tokens
    assert 128 < prompts.explain.max_tokens < prompts.reason.max_tokens
    assert prompts.direct.max_tokens < prompts.explain.max_tokens


def test_every_style_says_what_form_the_answer_has(public):
    prompts = load_prompts(public.prompts)
    words = {
        "yes_no": "yes or no",
        "choice": "letter of",
        "number": "number",
        "short_text": "word or",
    }
    for one in public.questions:
        instructions = {
            style: style_instruction(prompts, style, one.answer_type)
            for style in ("direct", "explain", "reason")
        }
        instructions["transfer"] = transfer_instruction(prompts, "It is red.", one.answer_type)
        for style, text in instructions.items():
            assert "{" not in text
            wanted = words[one.answer_type]
            assert wanted in text.replace("its letter", "letter of") or "word or phrase" in text
            assert ("last line" in text) == (style in ("explain", "reason"))
