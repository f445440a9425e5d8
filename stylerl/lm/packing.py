"""Prompts and their responses, laid end to end in one forward pass.

The completions of a group share a prompt, which is longer than many of them.
Here it is computed once, whatever their number: a pass sees one row of N
tokens, all prompts and then all responses, without padding, and only its
attention knows who belongs together.  A prompt's tokens see those before
them; a response's see its prompt and those before them in the response.
States and gradients are those of each sequence by itself (Prefix Grouper,
arXiv 2506.05433).

Notation: P groups of up to G responses; prompts of up to S tokens, responses
of up to R; N tokens in the row; M response tokens, which are all that is
scored.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import AttentionInterface, PreTrainedModel
from transformers.masking_utils import AttentionMaskInterface

from stylerl.errors import ModelError
from stylerl.lm.attention import attention

SHARED_PROMPT = "shared_prompt"


class Group(NamedTuple):
    """One prompt, and responses to it; token ids."""

    prompt: Sequence[int]
    responses: list[Sequence[int]]


class Layout(NamedTuple):
    """Where in the row each sequence is; 0 where it has no token."""

    prompts: Tensor  # (P, S) places
    is_prompt: Tensor  # (P, S) bool
    responses: Tensor  # (P, G, R) places
    padded: Tensor  # (N,) a token's number in P * S and P * G * R, end to end


class Pack(NamedTuple):
    """One forward pass."""

    input_ids: Tensor  # (1, N)
    positions: Tensor  # (1, N) of each token in its own sequence
    layout: Layout
    emitting: Tensor  # (M,) places of the states before response tokens
    tokens: Tensor  # (M,) these response tokens, response by response

    def to(self, device: torch.device) -> "Pack":
        """The same on a device."""
        return Pack(
            self.input_ids.to(device),
            self.positions.to(device),
            Layout(*(places.to(device) for places in self.layout)),
            self.emitting.to(device),
            self.tokens.to(device),
        )


def pack(groups: Sequence[Group]) -> Pack:
    """Lay groups end to end.

    The last token of a response is scored, and predicts nothing: it is not
    in the row.
    """
    count = max(len(group.responses) for group in groups)
    read = [[response[:-1] for response in g.responses] for g in groups]
    padded = [[*rows, *[[]] * (count - len(rows))] for rows in read]
    starts = torch.tensor([len(group.prompt) for group in groups])
    sizes = torch.tensor([[len(row) for row in rows] for rows in padded])
    # Places: the prompts' first, (P, S), and then the responses', (P, G, R).
    is_prompt = torch.arange(int(starts.max())) < starts[:, None]
    is_response = torch.arange(int(sizes.max())) < sizes[..., None]
    prompts = _numbered(is_prompt, 0)
    responses = _numbered(is_response, int(starts.sum()))
    # A response of r tokens is emitted by its prompt's last token and by its
    # own first r - 1.
    emitting = [
        torch.cat([prompts[p, starts[p] - 1 :][:1], responses[p, g, :n]])
        for p, group in enumerate(groups)
        for g in range(len(group.responses))
        for n in sizes[p, g : g + 1]
    ]
    ids = [token for group in groups for token in group.prompt]
    ids += [token for rows in read for row in rows for token in row]
    tokens = [t for group in groups for row in group.responses for t in row]
    inside = torch.arange(is_response.shape[-1]) + starts[:, None, None]
    positions = torch.cat(
        [
            torch.arange(is_prompt.shape[1]).expand_as(prompts)[is_prompt],
            inside.expand_as(responses)[is_response],
        ]
    )
    layout = Layout(
        prompts,
        is_prompt,
        responses,
        torch.cat([is_prompt.flatten(), is_response.flatten()])
        .nonzero()
        .flatten(),
    )
    return Pack(
        torch.tensor(ids)[None],
        positions[None],
        layout,
        torch.cat(emitting),
        torch.tensor(tokens),
    )


def passes(
    prompts: Sequence[Sequence[int]],
    responses: Sequence[Sequence[int]],
    rows: Iterable[int],
    limit: int,
) -> Iterator[tuple[list[int], Pack]]:
    """Cut rows into passes of about `limit` tokens; 0 takes all at once.

    Yields the rows of each, whose response tokens are laid end to end in this
    order, and the pass.  Rows that share a prompt are neighbours.  Long ones
    come first: where the first pass fits in memory, all do.
    """
    groups: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: -len(responses[row])):
        groups[tuple(prompts[row])].append(row)
    longest = sorted(
        groups.items(),
        key=lambda group: -len(group[0]) - len(responses[group[1][0]]),
    )
    part: list[Group] = []
    taken: list[int] = []
    room = limit
    for prompt, members in longest:
        room -= len(prompt)
        part.append(Group(prompt, []))
        for row in members:
            room -= len(responses[row])
            if limit and taken and room < 0:
                yield taken, pack([group for group in part if group.responses])
                # The prompt is in the next pass again.
                part, taken = [Group(prompt, [])], []
                room = limit - len(prompt) - len(responses[row])
            part[-1].responses.append(responses[row])
            taken.append(row)
    if taken:
        yield taken, pack(part)


def _numbered(mask: Tensor, first: int) -> Tensor:
    """Numbers from `first` on where a mask is true, and 0 elsewhere."""
    places = torch.zeros(mask.shape, dtype=torch.long)
    places[mask] = torch.arange(int(mask.sum())) + first
    return places


def response_states(lm: PreTrainedModel, packed: Pack) -> Tensor:
    """The state before each response token, (M, H)."""
    with attention(SHARED_PROMPT, lm):
        hidden = lm.base_model(
            input_ids=packed.input_ids,
            position_ids=packed.positions,
            use_cache=False,
            layout=packed.layout,
        ).last_hidden_state
    return hidden[0].index_select(0, packed.emitting)


def shared_prompt_attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    layout: Layout | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """Attention of packed groups.

    H heads, K of them with keys of their own, D dimensions of a head.
    Matrix products and a softmax: for sequences of a few hundred tokens on a
    CPU, the backward pass of torch's fused kernel is slower.

    Args:
        module: whose attention this is.
        query: (1, H, N, D).
        key: (1, K, N, D); head h reads that of h // (H / K).
        value: (1, K, N, D).
        attention_mask: None; `layout` says who sees whom.
        scaling: of the scores, D^-0.5 by default.
        layout: of the row.
        options: of other kernels; a window is no shorter than the texts
            (`context_limit`).

    Returns:
        (1, N, H, D), and no weights.

    Raises:
        ModelError: the model has not passed the layout down.
    """
    if layout is None:
        raise ModelError(
            "a forward pass over packed sequences must hand its options to "
            f"the attention; that of {type(module).__name__} does not: "
            "choose a Llama, GPT-2, Qwen2 or StarCoder2 model"
        )
    heads, key_heads, d = query.shape[1], key.shape[1], query.shape[3]
    (p, count, r), s = layout.responses.shape, layout.prompts.shape[1]
    scale = d**-0.5 if scaling is None else scaling
    shared = heads // key_heads
    # Rows of (N, ...), so that a sequence's are picked by their places.
    q = (query[0].transpose(0, 1) * scale).reshape(-1, key_heads, shared, d)
    k, v = (states[0].transpose(0, 1) for states in (key, value))

    # 1. Prompts: each token sees itself and those before it.
    qp = _pick(q, layout.prompts).reshape(p * key_heads, s * shared, d)
    kp, vp = (_pick(x, layout.prompts).flatten(0, 1) for x in (k, v))
    scores = (qp @ kp.transpose(1, 2)).view(p * key_heads, s, shared, s)
    weights = scores.masked_fill(_later(scores), -torch.inf).softmax(-1)
    of_prompts = weights.view(p * key_heads, s * shared, s) @ vp

    # 2. Responses: each token sees its prompt, and its own sequence so far.
    # A group's queries meet its prompt's keys in one product.
    n = p * key_heads * count
    places = layout.responses.flatten(1)
    qr = _pick(q, places).reshape(p * key_heads, count * r * shared, d)
    kr, vr = (_pick(x, places).reshape(n, r, d) for x in (k, v))
    to_prompt = (qr @ kp.transpose(1, 2)).view(p, n // p * r * shared, s)
    to_prompt = to_prompt.masked_fill(~layout.is_prompt[:, None], -torch.inf)
    to_own = qr.view(n, r * shared, d) @ kr.transpose(1, 2)
    to_own = to_own.view(n, r, shared, r)
    to_own = to_own.masked_fill(_later(to_own), -torch.inf)
    scores = torch.cat([to_prompt.view(n, r, shared, s), to_own], dim=-1)
    on_prompt, on_own = scores.softmax(-1).split([s, r], dim=-1)
    mixed = on_prompt.reshape(p * key_heads, count * r * shared, s) @ vp
    mixed = mixed + (on_own.reshape(n, r * shared, r) @ vr).view_as(mixed)

    # 3. Back to the row, by numbers: a mask would have a GPU wait.
    every = torch.cat(
        [
            part.view(p, key_heads, -1, shared, d)
            .transpose(1, 2)
            .reshape(-1, heads, d)
            for part in (of_prompts, mixed)
        ]
    )
    return every.index_select(0, layout.padded)[None], None


def _pick(states: Tensor, places: Tensor) -> Tensor:
    """The states of some places, (N, K, ...), (P, L) -> (P, K, L, ...)."""
    picked = states.index_select(0, places.flatten())
    picked = picked.view(*places.shape, *states.shape[1:])
    return picked.transpose(1, 2).contiguous()


def _later(scores: Tensor) -> Tensor:
    """Which keys come after a query, (L, 1, L) of (..., L, heads, L)."""
    length = scores.shape[-1]
    ones = torch.ones(length, length, dtype=torch.bool, device=scores.device)
    return ones.triu(1)[:, None]


AttentionInterface.register(SHARED_PROMPT, shared_prompt_attention)
AttentionMaskInterface.register(SHARED_PROMPT, lambda *_, **__: None)
