"""The decoding loop for a GPU: every step has the same shapes and addresses.

Launching the kernels of one token takes a GPU longer than running them, so a
step (forward pass, draw, bookkeeping) is captured once as a CUDA graph and
then replayed; the host looks at what was drawn every `LOOK` tokens.  Once
half of the rows have ended, the rest move to a step of half the size.  Graphs,
caches and a copy of the weights in bfloat16 are kept from one call to the
next, the last used ones, for as long as the model lives.  On a CPU the same
steps run uncaptured, for the tests.

Notation: B rows, R tokens of a response, S places of the cache, V vocabulary.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary, proxy

import torch
from torch import Tensor
from transformers import PreTrainedModel
from transformers.cache_utils import Cache, DynamicLayer

from stylerl.lm.decoding import (
    Responses,
    choose_tokens,
    fill_holes,
    left_pad,
    next_logits,
)
from stylerl.lm.models import bf16_copy

ROOM = 64  # caches have a multiple of this many places, so that few are made
LOOK = 16  # tokens between two looks of the host
WARM_UP = 3  # steps before a capture: libraries choose their kernels
KEPT = 24  # steps of a model; one call takes 8 for 128 rows, 9 for 256


def is_supported(model: PreTrainedModel) -> bool:
    """Whether a model attends as it is told to: over a mask, to all keys.

    GPT-Neo counts keys to find its query's position, which a cache of full
    size misleads; sliding windows are made by masks of transformers' own.
    """
    config = model.config.get_text_config()
    window = getattr(config, "sliding_window", None)
    sliding = window and getattr(config, "use_sliding_window", True)
    return bool(model._supports_attention_backend) and not sliding


class FixedLayer(DynamicLayer):
    """Keys and values of one layer, at addresses that do not change."""

    def __init__(self, room: int, at: Tensor) -> None:
        """`at` (1,) says where in `room` places the next token goes."""
        super().__init__()
        self.room, self.at, self.filled = room, at, 0
        self.buffers: list[Tensor] = []  # (B, heads, room, D) each

    def update(
        self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any
    ) -> tuple[Tensor, Tensor]:
        """Take a prompt's states and return them; or those of one token,
        (B, heads, 1, D), and return (B, heads, room, D)."""
        new = key_states, value_states
        self._allocate(new)
        if not self.filled:
            self.filled = key_states.shape[-2]
            for buffer, states in zip(self.buffers, new, strict=True):
                buffer[:, :, : self.filled] = states
            return new
        for buffer, states in zip(self.buffers, new, strict=True):
            buffer.index_copy_(2, self.at, states)
        keys, values = self.buffers
        return keys, values

    def adopt(self, other: "FixedLayer", rows: Tensor) -> None:
        """Take over these rows of another layer."""
        self.filled = other.filled
        self._allocate([buffer[: len(rows)] for buffer in other.buffers])
        for mine, theirs in zip(self.buffers, other.buffers, strict=True):
            mine.copy_(theirs[rows])

    def get_seq_length(self) -> int:
        """Tokens of the prompt, once it is there."""
        return self.filled

    def _allocate(self, like: Sequence[Tensor]) -> None:
        """Make the buffers, once."""
        for states in () if self.buffers else like:
            b, heads, _, d = states.shape
            self.buffers.append(states.new_zeros(b, heads, self.room, d))


class Shape(NamedTuple):
    """What a captured step is made for."""

    rows: int
    room: int
    limit: int
    temperature: float


class Step:
    """One token for each of B rows, over buffers that stay where they are."""

    def __init__(self, model: PreTrainedModel, shape: Shape) -> None:
        """Make the buffers; the graph comes with the first steps."""
        self.model, self.shape = model, shape
        b, room, limit, _ = shape
        device = model.device
        self.ids = torch.zeros(b, 1, dtype=torch.long, device=device)
        self.positions = torch.zeros_like(self.ids)
        self.mask = torch.zeros(b, 1, 1, room, dtype=torch.bool, device=device)
        self.noise = torch.zeros(b, limit, dtype=torch.float64, device=device)
        self.drawn = torch.zeros(b, limit, dtype=torch.long, device=device)
        self.at = torch.zeros(1, dtype=torch.long, device=device)
        self.count = torch.zeros_like(self.at)  # tokens drawn
        count = model.config.get_text_config().num_hidden_layers
        self.layers = [FixedLayer(room, self.at) for _ in range(count)]
        self.cache = Cache(list(self.layers))
        self.graph: torch.cuda.CUDAGraph | None = None
        self.runs = 0

    def start(
        self, ids: Tensor, mask: Tensor, noise: Tensor, lengths: Tensor
    ) -> None:
        """Read prompts, (B, width) and their mask, and draw a token each."""
        width = ids.shape[1]
        for layer in self.layers:
            layer.filled = 0
        self.mask.fill_(False)
        self.mask[:, 0, 0, :width] = mask
        self.noise.copy_(noise)
        self.at.fill_(width)
        self.count.zero_()
        positions = (torch.cumsum(mask, dim=1) - 1).clamp(min=0)
        logits = next_logits(self.model, ids, mask, positions, self.cache)
        self.positions.copy_(lengths[:, None])
        self._draw(logits)

    def advance(self) -> None:
        """Draw the next token of every row."""
        if self.graph is not None:
            self.graph.replay()
            return
        self.runs += 1
        if self.model.device.type != "cuda" or self.runs <= WARM_UP:
            self._compute()
            return
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):  # records, and computes nothing
            self._compute()
        self.graph.replay()

    def adopt(self, other: "Step", order: Tensor) -> None:
        """Continue with these rows of a larger step, (n,), n at most B.

        Rows beyond n repeat the last one, and nobody looks at them.
        """
        places = torch.arange(self.shape.rows).clamp(max=len(order) - 1)
        rows = order[places].to(self.ids.device)
        for name in ("ids", "positions", "mask", "noise", "drawn"):
            getattr(self, name).copy_(getattr(other, name)[rows])
        self.at.copy_(other.at)
        self.count.copy_(other.count)
        for mine, theirs in zip(self.layers, other.layers, strict=True):
            mine.adopt(theirs, rows)

    def _compute(self) -> None:
        self.mask.index_fill_(3, self.at, True)
        logits = next_logits(
            self.model, self.ids, self.mask, self.positions, self.cache
        )
        self.positions.add_(1)
        self.at.add_(1)
        self._draw(logits)

    def _draw(self, logits: Tensor) -> None:
        noise = self.noise.index_select(1, self.count)[:, 0]
        tokens = choose_tokens(logits, noise, self.shape.temperature)
        self.drawn.index_copy_(1, self.count, tokens[:, None])
        self.ids.copy_(tokens[:, None])
        self.count.add_(1)


class StaticDecoder:
    """The steps of one model, made as they are needed and kept."""

    def __init__(self, model: PreTrainedModel, bf16: bool) -> None:
        """Decode with `model` itself or with a copy in bfloat16.

        The model itself is held weakly: this decoder is kept for as long as
        the model lives, which would be for ever.
        """
        itself: Any = proxy(model)
        self.model = bf16_copy(model) if bf16 else itself
        self.copied = bf16
        self.steps: dict[Shape, Step] = {}  # the last used one last

    @torch.no_grad()
    def refresh(self, model: PreTrainedModel) -> None:
        """Take over the weights that `model` has by now."""
        if self.copied:
            pairs = zip(
                self.model.parameters(), model.parameters(), strict=True
            )
            for mine, theirs in pairs:
                mine.copy_(theirs)

    @torch.inference_mode()
    def decode(
        self,
        prompts: list[list[int]],
        noise: Tensor,
        temperature: float,
        pad: int,
        ends: Callable[[list[int]], bool],
    ) -> list[list[int]]:
        """What `decode_batch` does, with the same arguments."""
        # 1. Prompts padded on the left, and the first token of each row.
        ids, mask, lengths = left_pad(prompts, pad)
        width, limit = ids.shape[1], noise.shape[1]
        room = -(-(width + limit) // ROOM) * ROOM
        step = self._step(Shape(len(prompts), room, limit, temperature))
        device = self.model.device
        step.start(*(t.to(device) for t in (ids, mask, noise, lengths)))
        # 2. A few tokens for every row, then a look at which have ended.
        responses = Responses(len(prompts), ends)
        seen, drawn = 0, 1
        while True:
            places = len(responses.rows)
            live = responses.add(step.drawn[:places, seen:drawn].tolist())
            if drawn == limit or not live.any():
                return responses.ids
            # 3. Half of the rows have ended: the others go to a small step.
            if 2 * int(live.sum()) <= step.shape.rows:
                order = fill_holes(live)
                responses.keep(order)
                small = self._step(
                    step.shape._replace(rows=-(-step.shape.rows // 2))
                )
                small.adopt(step, order)
                step = small
            seen, drawn = drawn, min(drawn + LOOK, limit)
            for _ in range(drawn - seen):
                step.advance()

    def _step(self, shape: Shape) -> Step:
        step = self.steps.pop(shape, None)
        if step is None:
            # Room is made first; the step that a call is at was used last.
            while len(self.steps) >= KEPT:
                del self.steps[next(iter(self.steps))]
            step = Step(self.model, shape)
        self.steps[shape] = step
        return step


_DECODERS: WeakKeyDictionary[PreTrainedModel, dict[bool, StaticDecoder]] = (
    WeakKeyDictionary()
)


def decoder_of(model: PreTrainedModel, bf16: bool) -> StaticDecoder:
    """The decoder of a model, with the weights that the model has now."""
    decoders = _DECODERS.setdefault(model, {})
    if bf16 in decoders:
        decoders[bf16].refresh(model)
    else:
        decoders[bf16] = StaticDecoder(model, bf16)
    return decoders[bf16]
