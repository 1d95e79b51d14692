"""One loaded checkpoint and the thread that works for it: requests in batches, token by token.

Requests that arrive while others decode are prefilled between two tokens and join the batch, which
resumes from its own KV caches. Imports torch and transformers: `loading` imports it late.
"""

import atexit
import inspect
import queue
import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
from transformers import GenerationConfig

from ..chat_format import Turn
from ..completion import Chunk, Completion, Drafted, FinishReason, Settings, TextStream, token_entry
from ..errors import ModelError
from ..images import DecodedImage
from .checkpoint import Checkpoint, limit_threads, loading_gate
from .grammar import Grammar
from .loading import explain_failure, is_out_of_memory
from .prefix_cache import KVCache, PrefixCache, merge_caches, new_cache, take_sequence
from .prompt import Encoder, image_inputs

JOIN_EVERY = 4
"""Tokens that a running batch decodes before waiting requests join, so that a stream of short
requests cannot starve it."""

PADDING = 1024
"""Tokens of padding that cost no more than a batch of their own."""

_Result = TypeVar("_Result")
# transformers leaves it untyped.
_generation_config: Any = GenerationConfig


@dataclass(eq=False, slots=True)
class Job:
    """A function to run in the engine's thread; it gets one that says whether nobody waits."""

    function: Callable[[Callable[[], bool]], Any]
    future: Future[Any] = field(default_factory=Future)


@dataclass(eq=False)
class Request:
    """One call: what is asked for, and what has been generated. Only `future` is the caller's.

    Attributes:
        turns: The conversation for the chat template.
        images: Its images.
        settings: How to generate.
        batch_size: Sequences of a batch that it is in, at most.
        batch_tokens: Tokens of such a batch at most, padding and outputs included.
        prefix_cache_bytes: Memory that prefix KV caches may take; None for the engine's default.
        draft: The engine that drafts for it, and its images (speculative decoding).
        on_chunk: Called for every chunk of output, in the engine's thread.
        future: Resolves to the `Completion`; cancelling it ends the generation at the next token.
        tokens: Prompt and output, without padding.
        known: KV cache of the first `computed` tokens, None if there is none.
        computed: Tokens that need not be computed again.
        cached: Tokens of the prompt that an earlier call computed.
    """

    turns: Sequence[Turn]
    images: Sequence[DecodedImage]
    settings: Settings
    batch_size: int
    batch_tokens: int
    prefix_cache_bytes: int | None
    draft: "tuple[Engine, Sequence[DecodedImage]] | None" = None
    on_chunk: Callable[[Chunk], object] | None = None
    future: Future[Completion] = field(default_factory=Future)
    tokens: list[int] = field(default_factory=list)
    known: KVCache | None = None
    computed: int = 0
    cached: int = 0

    def begin(self, encoder: Encoder) -> None:
        """Encode the prompt, and make what the output needs."""
        self.prompt = prompt = encoder.encode(self.turns, self.images)
        self.tokens = list(prompt.tokens)
        self.limit = min(self.settings.max_tokens, prompt.capacity)
        self.drafted = Drafted() if self.draft else None
        schema = None if self.draft else self.settings.schema
        self.grammar = Grammar(encoder.tokenizer, schema) if schema else None
        self._decode = encoder.decode
        self._stream = TextStream(encoder.decode, self.settings.stop)
        self._logprobs: list[dict[str, Any]] = []
        self._drawn_from: torch.Tensor | None = None
        self.generator: torch.Generator | None = None
        if self.settings.temperature > 0:
            seed = self.settings.seed
            self.generator = torch.Generator()
            self.generator.manual_seed(secrets.randbits(63) if seed is None else seed)

    @property
    def done(self) -> bool:
        """Whether it finished, failed or was cancelled."""
        return self.future.done()

    @property
    def remaining(self) -> int:
        """Tokens that may still be generated."""
        return self.limit - (len(self.tokens) - len(self.prompt.tokens))

    def draw(self, scores: torch.Tensor) -> torch.Tensor:
        """Return scores (vocabulary) whose likeliest token is a draw from their softmax.

        Gumbel noise from a generator of its own: a seed gives the same output alone and beside
        others. Temperatures below 1 shrink the noise instead of raising the scores, which is the
        same draw and cannot overflow. Until `accept`, a second draw is the same one.
        """
        if self.generator is None:
            return scores
        if self._drawn_from is None:
            self._drawn_from = self.generator.get_state()
        self.generator.set_state(self._drawn_from)
        exponential = torch.empty(scores.shape[0]).exponential_(generator=self.generator)
        gumbel = -exponential.clamp_min(1e-30).log()
        temperature = self.settings.temperature
        noise = gumbel.to(scores.device) * min(temperature, 1.0)
        return scores / max(temperature, 1.0) + noise

    def allowed(self, scores: torch.Tensor) -> torch.Tensor:
        """Return the scores (vocabulary) without the tokens that a schema forbids here."""
        return self.grammar.mask(scores) if self.grammar and not self.done else scores

    def accept(self, token: int, entry: dict[str, Any] | None, *, ends: bool) -> None:
        """Take the next token, with its log-probabilities where they were asked for."""
        self.tokens.append(token)
        self._drawn_from = None
        if self.grammar:
            self.grammar.take(token)
        if ends:
            self.finish("stop")
            return
        self._emit(self._stream.push(token), [entry] if entry else [])
        if self._stream.stopped:
            self.finish("stop")
        elif self.remaining <= 0:
            self.finish("length")

    def logprobs(self, scores: torch.Tensor, token: int) -> dict[str, Any] | None:
        """Return the chosen token's log-probabilities by its scores (vocabulary), if asked for."""
        if not self.settings.logprobs:
            return None
        logprobs = torch.log_softmax(scores.float(), dim=-1)
        values, tokens = logprobs.topk(min(self.settings.top_logprobs, logprobs.shape[0]))
        top = list(zip(tokens.tolist(), values.tolist(), strict=True))
        return token_entry(self._decode, token, float(logprobs[token]), top)

    def finish(self, reason: FinishReason) -> None:
        """End the output."""
        if self.done:
            return
        self._emit(self._stream.finish(), [])
        completion = Completion(
            text=self._stream.text,
            input_tokens=len(self.prompt.tokens),
            cached_tokens=self.cached,
            output_tokens=len(self.tokens) - len(self.prompt.tokens),
            # The held-back rest may complete a stop string at the very limit.
            finish_reason="stop" if self._stream.stopped else reason,
            logprobs=tuple(self._logprobs),
            drafted=self.drafted,
        )
        with suppress(InvalidStateError):  # the caller cancelled at this moment
            self.future.set_result(completion)

    def _emit(self, text: str, entries: list[dict[str, Any]]) -> None:
        self._logprobs += entries
        if self.on_chunk and (text or entries):
            self.on_chunk(Chunk(text, tuple(entries)))


class Decoding:
    """One `generate` over a batch: it draws, passes each token on, and stops where others wait.

    Only requests that can resume from their KV caches stop for others.
    """

    def __init__(self, engine: "Engine", batch: Sequence[Request], most: int) -> None:
        """Watch over requests in the order of the batch, for at most `most` tokens."""
        self.steps = 0  # tokens of each sequence so far
        self._engine = engine
        self._batch = batch
        self._most = most
        self._scores = torch.empty(0)
        self._stopped = False

    def sample(self, _ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Return the scores (sequences, vocabulary) whose maximum is each next token."""
        if not self._scores.numel():
            check_scores(scores)
        self._scores = scores
        if not any(one.generator or one.grammar for one in self._batch):
            return scores
        rows = zip(self._batch, scores, strict=True)
        return torch.stack([one.draw(one.allowed(own)) for one, own in rows])

    def watch(self, ids: torch.Tensor, _scores: Any, **_: Any) -> torch.Tensor:
        """Take the last column of `ids` (sequences, length); return which are done."""
        if not self._stopped:  # some devices compute one step more
            tokens = ids[:, -1].tolist()
            alive = [at for at, one in enumerate(self._batch) if not one.done]
            # What can fail for want of memory comes before any request has changed.
            entries = [self._batch[at].logprobs(self._scores[at], tokens[at]) for at in alive]
            self.steps += 1
            for at, entry in zip(alive, entries, strict=True):
                ends = tokens[at] in self._engine.encoder.end_tokens
                try:
                    self._batch[at].accept(tokens[at], entry, ends=ends)
                except Exception as error:  # noqa: BLE001  its caller gets it, others continue
                    self._engine.fail(self._batch[at], error)
            resumes = bool(self._batch[0].prompt.chain)
            waits = self.steps >= JOIN_EVERY and resumes and self._engine.waits(self._batch)
            self._stopped = self.steps >= self._most or waits or self._engine.stopping
        return torch.tensor([self._stopped or one.done for one in self._batch], device=ids.device)


class Engine:
    """A checkpoint in memory, with a thread of its own.

    On a CPU, models of fewer than 50 million parameters compute on one thread: beside other busy
    threads, more of them wait for each other after every small operation. Larger ones divide
    torch's threads among those that compute at the moment.
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        """Take over a loaded checkpoint."""
        self.name = checkpoint.name
        self.model = model = checkpoint.model
        self.encoder = Encoder(checkpoint)
        self.prefixes = PrefixCache(model.device)
        self.answers = checkpoint.layers is None
        # The checkpoint's own sampling settings would be mixed into every call.
        model.generation_config = _generation_config(
            eos_token_id=sorted(self.encoder.end_tokens) or None,
            pad_token_id=self.encoder.pad_token,
            bos_token_id=checkpoint.processor.tokenizer.bos_token_id,
        )
        # Older versions of transformers call it otherwise.
        named = inspect.signature(model.forward).parameters
        self.cache_name = "cache" if "cache" in named else "past_key_values"
        # Qwen keeps the offset of its positions on the model from call to call.
        self._stateful = [part for part in model.modules() if hasattr(part, "rope_deltas")]
        self._waiting: queue.SimpleQueue[Request | Job | None] = queue.SimpleQueue()
        self._held: list[Request] = []
        self._closed = False
        self.stopping = False
        self._lock = threading.Lock()
        self._threads = checkpoint.threads
        self._all_threads = torch.get_num_threads()
        self._worker = threading.Thread(target=self._run, name=f"engine {self.name}", daemon=True)
        self._worker.start()
        # A thread that still computes when the interpreter ends would abort the process.
        atexit.register(self._stop)

    def submit(self, work: Request | Job) -> None:
        """Set the engine to work on a request or other work. Returns immediately."""
        with self._lock:
            if not self._closed:
                self._waiting.put(work)
                return
        self.fail(
            work, ModelError(f"The model {self.name!r} was unloaded as a call began; call again.")
        )

    def close(self) -> None:
        """Take no more work; what runs or waits is still done."""
        with self._lock:
            self._closed = True
            self._waiting.put(None)
        atexit.unregister(self._stop)

    def _stop(self) -> None:
        self.stopping = True
        self.close()
        self._worker.join()

    def token_ids(self, text: str) -> list[int]:
        """Return the token ids of a bare text."""
        return self.encoder.token_ids(text)

    def prompt_token_ids(self, turns: Sequence[Turn], images: Sequence[DecodedImage]) -> list[int]:
        """Return the token ids of a prompt, those of images included."""
        return self.run(lambda _: self.encoder.encode(turns, images).tokens).result()

    def run(self, function: Callable[[Callable[[], bool]], _Result]) -> Future[_Result]:
        """Run a function in the engine's thread, between two tokens: see `Job`."""
        job = Job(function)
        self.submit(job)
        return job.future

    def waits(self, batch: Sequence[Request]) -> bool:
        """Whether something waits that may run beside a batch now."""
        if not self._waiting.empty():
            return True
        return any(self._fits([one], batch) for one in self._held[:1])

    def fail(self, work: Request | Job, error: Exception) -> None:
        """End a request or other work with an error, unless it is done."""
        with suppress(InvalidStateError):
            work.future.set_exception(explain_failure(error, self.name))

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Hold while the model computes; no call knows anything of the one before."""
        try:
            with loading_gate.computing() as models, torch.inference_mode():
                if self._threads is None and self.model.device.type == "cpu":
                    limit_threads(max(1, self._all_threads // models))
                yield
        finally:
            for part in self._stateful:
                part.rope_deltas = None

    def place(self, value: Any) -> Any:
        """Return a tensor on the model's device, in its dtype if it holds no integers."""
        if not torch.is_tensor(value):
            return value
        dtype = self.model.dtype if value.is_floating_point() else None
        return value.to(device=self.model.device, dtype=dtype)

    def _run(self) -> None:
        if self._threads is not None:
            limit_threads(self._threads)
        running: list[Request] = []
        while True:
            try:
                arrived = self._arrivals(running)
                if arrived is None or self.stopping:
                    return
                if running and arrived:
                    self._advance(arrived, most=1)
                running = [one for one in (*running, *arrived) if not one.done]
                if running:
                    self._advance(running)
            except Exception as error:  # noqa: BLE001  no batch could be chosen
                for one in (*running, *self._held):
                    self.fail(one, error)
            running = [one for one in running if not one.done]

    def _arrivals(self, running: Sequence[Request]) -> list[Request] | None:
        """Return the requests that may run now beside the running ones; None once closed."""
        idle = not running and not self._held
        # No more than what waits now: what keeps coming would hold up the running ones.
        for _ in range(max(self._waiting.qsize(), idle)):
            work = self._waiting.get()
            if work is None:
                if not running and not self._held:
                    return None
                self._waiting.put(None)  # again, once the others are done
                break
            self._begin(work)
        taken: list[Request] = []
        held = [one for one in self._held if not one.done]
        # Nobody joins past one that waits for the others to end.
        while held and self._fits([*taken, held[0]], running):
            taken.append(held.pop(0))
        self._held = held
        return taken

    def _begin(self, work: Request | Job) -> None:
        if work.future.done():
            return
        try:
            if isinstance(work, Job):
                result = work.function(work.future.done)
                with suppress(InvalidStateError):  # the caller cancelled at this moment
                    work.future.set_result(result)
                return
            with loading_gate.computing():
                work.begin(self.encoder)
            if work.draft is None and work.prompt.chain and work.prefix_cache_bytes != 0:
                # One token is left to compute, for something has to say what comes next.
                found = self.prefixes.find(work.prompt, len(work.prompt.tokens) - 1)
                if found:
                    work.known, work.computed = found
                    work.cached = work.computed
            self._held.append(work)
        except Exception as error:  # noqa: BLE001  the caller gets it
            if is_out_of_memory(error):
                self.prefixes.clear()
            self.fail(work, error)

    def _fits(self, taken: Sequence[Request], running: Sequence[Request]) -> bool:
        """Whether a batch stays within its bounds, and wastes little on padding."""
        batch = [*running, *taken]
        if len(batch) == 1:
            return True
        if any(not other.prompt.chain or other.draft for other in batch):
            return False
        if len(batch) > min(other.batch_size for other in batch):
            return False
        new = [len(other.tokens) - other.computed for other in taken]
        # Known and new tokens are padded apart; once computed, all of a request's are known.
        width = max(other.computed for other in taken) + max(new)
        width = max([width, *(len(other.tokens) for other in running)])
        longest = width + max(other.remaining for other in batch)
        if len(batch) * longest > min(other.batch_tokens for other in batch):
            return False
        return len(new) * max(new) <= 2 * sum(new) + PADDING

    def _advance(self, batch: Sequence[Request], most: int = 1 << 62) -> None:
        """Generate until all are done, others wait, or `most` tokens have come.

        A batch that fails is tried again one by one, so that only the request at fault fails.
        """
        try:
            first = batch[0]
            if first.draft is not None:
                self._speculate(first, *first.draft)
            elif first.prompt.chain:
                self._generate(batch, most)
            else:  # its KV caches cannot be cut: it is alone
                self._decode(batch, first.prompt.inputs, first.remaining)
                first.finish("length")
            return
        except Exception as error:  # noqa: BLE001  the caller gets it
            if is_out_of_memory(error):
                self.prefixes.clear()
            if len(batch) == 1:
                self.fail(batch[0], error)
                return
        for one in batch:
            if not one.done:
                self._advance([one], most)

    def _generate(self, batch: Sequence[Request], most: int) -> None:
        inputs, columns, known_width = _lay_out(batch, self.encoder.pad_token)
        cache = new_cache(self.model.config)
        if known_width:
            merge_caches([one.known for one in batch], known_width, cache)
        decoding = self._decode(batch, inputs | {self.cache_name: cache}, most)
        width = inputs["input_ids"].shape[1]
        with torch.inference_mode():
            for at, one in enumerate(batch):
                length = len(one.prompt.tokens)
                if one.computed < length and one.prefix_cache_bytes != 0:
                    prompt = take_sequence(cache, at, columns[at][:length])
                    self.prefixes.store(one.prompt.chain, prompt, one.prefix_cache_bytes)
                if not one.done:
                    # The last token was chosen, not computed.
                    generated = torch.arange(width, width + decoding.steps - 1)
                    own = torch.cat([columns[at], generated])
                    one.known = take_sequence(cache, at, own)
                    one.computed = len(one.tokens) - 1

    def _decode(self, batch: Sequence[Request], inputs: dict[str, Any], most: int) -> Decoding:
        decoding = Decoding(self, batch, most)
        with self.computing():
            self.model.generate(
                **{key: self.place(value) for key, value in inputs.items()},
                generation_config=_generation_config(
                    max_new_tokens=max(one.remaining for one in batch), do_sample=False
                ),
                logits_processor=[decoding.sample],
                stopping_criteria=[decoding.watch],
            )
        return decoding

    def _speculate(self, one: Request, draft: "Engine", images: Sequence[DecodedImage]) -> None:
        """Generate with a draft; such a request is alone, and its prompt is computed anew."""
        from .speculation import Reader, speculate

        ends, read = self.encoder.end_tokens, draft.encoder.encode(one.turns, images)

        def accept(token: int, scores: torch.Tensor) -> bool:
            one.accept(token, one.logprobs(scores, token), ends=token in ends)
            return not one.done

        with self.computing():
            readers = Reader(self, one.prompt), Reader(draft, read)
            speculate(*readers, ends, one.limit, accept, one.drafted or Drafted())
        one.finish("length")


def check_scores(scores: torch.Tensor) -> None:
    """Raise `ModelError` for scores that are no numbers."""
    if bool(torch.isnan(scores).any()):
        raise ModelError(
            "The model's output is not a number; its dtype is too small for it, so use bfloat16 or "
            "float32."
        )


def _lay_out(
    batch: Sequence[Request], pad: int
) -> tuple[dict[str, torch.Tensor], list[torch.Tensor], int]:
    """Put sequences side by side: their known tokens on the left, the others on the right.

    Both parts are padded on the left, so that the known parts end in one column and the sequences
    in another. Between them a sequence may have padding too; its mask and positions pass over it.

    Returns:
        What `generate` takes but for the KV cache, the columns of each sequence's tokens, and the
        columns of the known part.
    """
    known = max(one.computed for one in batch)
    width = known + max(len(one.tokens) - one.computed for one in batch)
    ids = torch.full((len(batch), width), pad)
    mask = torch.zeros_like(ids)
    columns = []
    for at, one in enumerate(batch):
        new = len(one.tokens) - one.computed
        own = torch.cat([torch.arange(known - one.computed, known), torch.arange(width)[-new:]])
        ids[at, own] = torch.tensor(one.tokens)
        mask[at, own] = 1
        columns.append(own)
    inputs = {"input_ids": ids, "attention_mask": mask}
    inputs |= image_inputs(
        image for one in batch for image in one.prompt.images if image.start >= one.computed
    )
    if batch[0].prompt.positions is not None:
        positions = torch.zeros(4, len(batch), width, dtype=torch.long)
        for at, (one, own) in enumerate(zip(batch, columns, strict=True)):
            positions[:, at, own] = one.prompt.positions_to(len(one.tokens))
        inputs["position_ids"] = positions
    return inputs, columns, known
