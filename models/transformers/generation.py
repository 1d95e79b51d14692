"""Rows through a model: prefill and decode, in batches that rows join and leave.

Imports torch and transformers: only modules of a loaded model import this one.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from transformers import (
    DynamicCache,
    GenerationConfig,
    LogitsProcessorList,
    StoppingCriteriaList,
)

from ..completion import Drafted
from .attention_passes import AttentionPasses
from .computation import Computation
from .key_values import merge_rows, plain_cache, take_row
from .load_errors import is_out_of_memory
from .memory import free_device_memory
from .padding import Inputs, merge_inputs
from .prefix_cache import PrefixCache
from .rows import Row
from .sampling import Sampler, Watch, token_logprobs
from .sequences import Layout, TokenSequence, lay_out
from .speculation import Reader, Speculation
from .waiting import JOINT_STEPS, WaitingRows

REUSING = frozenset({"internvl", "qwen3_vl"})
"""Model types whose outputs were shown to be the same with reused prefixes: every token sees only
those before it, and positions can be given from outside."""

Explain = Callable[[Exception], Exception]
"""What a caller is told of an error."""

_SHARE_OF_MEMORY = 8
_CACHE_WITHOUT_COUNT = 1 << 30


def reuses_prefixes(config: Any) -> bool:
    """Whether a model can go on from what it read of another prompt, by its transformers config."""
    return config.model_type in REUSING and plain_cache(config) is not None


class Generation:
    """A model's own work; everything here happens in the model's thread.

    Rows that come while others decode join them: the batch stops, the new prompts are computed,
    and all go on together from their keys and values. Finished rows leave at such a moment, and
    passes that read attention have their turn. Models of types outside `REUSING` run one batch
    after the other, without reuse.
    """

    def __init__(
        self, computation: Computation, ends: frozenset[int], pad: int, *, writes: bool
    ) -> None:
        """Take over a loaded model.

        Args:
            computation: The model.
            ends: Token ids that end an output.
            pad: Token id to pad with.
            writes: Whether it can write answers; else it only gives attention.
        """
        self._computation = computation
        self._model = model = computation.model
        self._ends = ends
        self._pad = pad
        self._prefixes = PrefixCache()
        self._prefix_bytes = _default_prefix_bytes(model.device)
        self.reuses = reuses_prefixes(model.config)
        self.waiting = WaitingRows(self._new_tokens)
        self.passes = AttentionPasses(
            computation, self._prefixes, default_bytes=self._prefix_bytes, stores=not writes
        )

    def run(self, explain: Explain) -> None:
        """Work until nothing waits.

        Args:
            explain: What a caller is told of an error.
        """
        running: list[TokenSequence] = []
        while True:
            self.passes.run(explain)
            arrived = self._arrivals(running, explain)
            if running and arrived:
                self._advance(arrived, explain, prefill=True)
            running = [one for one in (*running, *arrived) if not one.row.done]
            if running:
                self._advance(running, explain)
            elif not arrived:
                return
            running = [one for one in running if not one.row.done]

    def _arrivals(self, running: Sequence[TokenSequence], explain: Explain) -> list[TokenSequence]:
        """Begin the rows that may run beside the running ones. Those that cannot begin fail."""
        try:
            taken = self.waiting.take([one.row for one in running])
        except Exception as error:  # noqa: BLE001  (the waiting callers get it)
            self.waiting.fail(explain(error))
            return []
        arrived = []
        for row in taken:
            try:
                arrived.append(self._begin(row))
            except Exception as error:  # noqa: BLE001
                row.fail(explain(error))
        return arrived

    def forget_prefixes(self) -> None:
        """Forget the keys and values of earlier prompts."""
        self._prefixes.clear()

    def _begin(self, row: Row) -> TokenSequence:
        found = self._find(row)
        if found is None:
            return TokenSequence(row)
        known, computed = found
        row.cached_tokens = computed
        return TokenSequence(row, known, computed)

    def _find(self, row: Row) -> Any:
        """Reusable keys and values, and how many tokens of the row's prompt they are."""
        prompt = row.prompt
        if row.draft is not None or not prompt.chain or row.sharing.prefix_cache_bytes == 0:
            return None
        # One token is left to compute, for something has to say what comes next.
        return self._prefixes.find_before(prompt, prompt.length - 1)

    def _new_tokens(self, row: Row) -> int:
        try:
            found = self._find(row)
        except Exception:  # noqa: BLE001  (where the row begins it fails again, if it still does)
            found = None
        return row.input_tokens - (found[1] if found else 0)

    def _advance(
        self,
        sequences: Sequence[TokenSequence],
        explain: Explain,
        *,
        prefill: bool = False,
    ) -> None:
        """Generate until all are done or rows join; with `prefill`, one token each.

        A batch that fails is tried again row by row, so that only the row at fault fails.
        """
        try:
            if sequences[0].row.drafted is not None:
                self._speculate(sequences[0], sequences[0].row.drafted)
            elif all(one.prompt.chain for one in sequences):
                self._generate_reusing(sequences, explain, prefill=prefill)
            else:
                self._generate_plain(sequences, explain)
            return
        except Exception as error:  # noqa: BLE001  (the waiting callers get it)
            for one in sequences:
                one.rewind()
            if is_out_of_memory(error):
                self._prefixes.clear()
            if len(sequences) == 1:
                sequences[0].row.fail(explain(error))
                return
        for one in sequences:
            if not one.row.done:
                self._advance([one], explain, prefill=prefill)

    def _speculate(self, one: TokenSequence, drafted: Drafted) -> None:
        """Generate with a draft; such a row is alone, and its prompt is computed anew."""
        row = one.row

        def accept(token: int, scores: torch.Tensor) -> bool:
            self._computation.adjust_threads()
            logprobs = token_logprobs(row, scores, token)
            row.accept(token, ends=token in self._ends, logprobs=logprobs)
            return not row.done

        target = Reader(self._model, row.prompt)
        draft = Reader(row.draft.model, row.draft.prompt)
        speculation = Speculation(target, draft, self._ends, drafted)
        with self._computation.running():
            speculation.run(row.limit, accept)
        row.finish("length")

    def _generate_plain(self, sequences: Sequence[TokenSequence], explain: Explain) -> None:
        batch = [one for one in sequences if not one.row.done]
        merged = merge_inputs([one.prompt.inputs for one in batch], self._pad)
        batches = [(batch, merged)] if merged else [([one], one.prompt.inputs) for one in batch]
        for together, inputs in batches:
            # A retry after a failure starts anew behind what was generated before.
            self._generate(together, _continued(together, inputs), self._never_pause, explain)
            for one in together:
                one.row.finish("length")

    def _never_pause(self, _steps: int) -> bool:
        self._computation.adjust_threads()
        return False

    def _generate_reusing(
        self,
        sequences: Sequence[TokenSequence],
        explain: Explain,
        *,
        prefill: bool,
    ) -> None:
        rows = [one.row for one in sequences]
        layout = lay_out(sequences, self._pad)
        cache = plain_cache(self._model.config)
        if cache is None:
            raise TypeError("this model's keys and values cannot be reused")
        if layout.known_width:
            cache = merge_rows([one.known for one in sequences], layout.known_width, cache)

        def pause(steps: int) -> bool:
            self._computation.adjust_threads()
            alive = [row for row in rows if not row.done]
            read = steps >= JOINT_STEPS and self.passes.waits
            return prefill or read or self.waiting.may_join(alive, steps)

        inputs = layout.inputs | {self._computation.cache_name: cache}
        watch = self._generate(sequences, inputs, pause, explain)
        for at, one in enumerate(sequences):
            self._keep(one, at, cache, layout, watch.steps)
            if not watch.paused:
                one.row.finish("length")

    def _generate(
        self,
        sequences: Sequence[TokenSequence],
        inputs: Any,
        pause: Callable[[int], bool],
        explain: Explain,
    ) -> Watch:
        limit = max(one.remaining for one in sequences)
        sampler = Sampler(sequences)
        watch = Watch(sequences, self._ends, sampler, pause, explain)
        place = self._computation.place
        with self._computation.running():
            self._model.generate(
                **{key: place(value) for key, value in inputs.items()},
                generation_config=generation_config(max_new_tokens=limit, do_sample=False),
                logits_processor=LogitsProcessorList([sampler]),
                stopping_criteria=StoppingCriteriaList([watch]),
            )
        return watch

    def _keep(
        self, one: TokenSequence, at: int, cache: DynamicCache, layout: Layout, steps: int
    ) -> None:
        """Keep the keys and values of the prompt for others, and of all tokens for the row."""
        columns = layout.columns[at]
        length = one.prompt.length
        limit = one.row.sharing.prefix_cache_bytes
        limit = self._prefix_bytes if limit is None else limit
        if one.computed < length and limit:
            with torch.inference_mode():
                prompt = take_row(cache, at, columns[:length])
            self._prefixes.store(one.prompt.chain, prompt, limit)
        if not one.row.done:
            # The last token was chosen, not computed.
            generated = torch.arange(layout.width, layout.width + steps - 1)
            with torch.inference_mode():
                one.known = take_row(cache, at, torch.cat([columns, generated]))
            one.computed = len(one.tokens) - 1


def generation_config(**settings: Any) -> Any:
    """A generation config; transformers leaves it untyped."""
    config: Any = GenerationConfig
    return config(**settings)


def _continued(sequences: Sequence[TokenSequence], inputs: Inputs) -> Inputs:
    """The inputs of one sequence with what it has generated already; of more, as they are."""
    generated = sequences[0].tokens[sequences[0].prompt.length :]
    if len(sequences) > 1 or not generated:
        return inputs
    ids, mask = inputs["input_ids"], inputs["attention_mask"]
    more = torch.tensor([generated])
    longer = inputs | {
        "input_ids": torch.cat([ids, more], dim=1),
        "attention_mask": torch.cat([mask, torch.ones_like(more)], dim=1),
    }
    for key, value in inputs.items():
        if key not in longer or (key.endswith("_ids") and key != "input_ids"):
            longer[key] = torch.cat([value, torch.zeros_like(more)], dim=1)
    return longer


def _default_prefix_bytes(device: torch.device) -> int:
    free = free_device_memory(device)
    return _CACHE_WITHOUT_COUNT if free is None else free // _SHARE_OF_MEMORY
