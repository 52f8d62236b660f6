"""The benchmarked models in plain PyTorch."""

# pyright: reportMissingImports=false

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

PAD, BOS, EOS = 0, 1, 2


class TorchRecurrent(nn.Module):
    """Luong's model (2015) with input feeding, global attention and the general score.

    The encoder is a cuDNN LSTM and the decoder is a loop over LSTM cells. The output layer is one
    matrix product for all target positions.
    """

    def __init__(self, source: int, target: int, layers: int, features: int, dropout: float):
        super().__init__()
        self.source, self.target = (nn.Embedding(size, features) for size in (source, target))
        self.encoder = nn.LSTM(
            features, features, layers, batch_first=True, dropout=dropout * (layers > 1)
        )
        self.cells = nn.ModuleList(
            nn.LSTMCell(2 * features if i == 0 else features, features) for i in range(layers)
        )
        self.W_a = nn.Linear(features, features, bias=False)
        self.W_c = nn.Linear(2 * features, features, bias=False)
        self.output = nn.Linear(features, target, bias=False)
        self.drop = nn.Dropout(dropout)

    def encode(self, source: Tensor, length: int = 0) -> tuple:
        """Return (encoder states, attention keys, padding mask) and the initial decoder state.

        `length` is not used, because the size of the decoder state does not depend on the target
        length.
        """
        states, (h, c) = self.encoder(self.drop(self.source(source)))
        carries = [(h[i], c[i]) for i in range(len(self.cells))]
        feed = torch.zeros_like(h[0])
        return (states, self.W_a(states), source == PAD), (carries, feed)

    def step(self, memory: tuple, state: tuple, embedded: Tensor) -> tuple[Tensor, tuple]:
        """Compute one decoder time step; return Luong's attentional vector and the new state.

        `embedded` contains the embedding of the preceding target token.
        """
        states, keys, padding = memory
        carries, feed = state
        x, new = torch.cat([embedded, feed], dim=-1), []
        for cell, carry in zip(self.cells, carries, strict=True):
            new.append(cell(self.drop(x), carry))
            x = new[-1][0]
        scores = torch.bmm(keys, x.unsqueeze(2)).squeeze(2).float()
        weights = scores.masked_fill(padding, -math.inf).softmax(dim=-1).to(states.dtype)
        context = torch.bmm(weights.unsqueeze(1), states).squeeze(1)
        feed = torch.tanh(self.W_c(torch.cat([context, x], dim=-1)))
        return feed, (new, feed)

    def next(self, memory: tuple, state: tuple, tokens: Tensor, t: Tensor) -> tuple[Tensor, tuple]:
        """Return the logits of the next token, and the new decoder state."""
        feature, state = self.step(memory, state, self.target(tokens))
        return self.output(feature), state

    def forward(self, source: Tensor, tokens: Tensor) -> Tensor:
        """Return the logits of all target positions under teacher forcing."""
        memory, state = self.encode(source)
        embedded, features = self.target(tokens), []
        for t in range(tokens.shape[1]):
            feature, state = self.step(memory, state, embedded[:, t])
            features.append(feature)
        return self.output(self.drop(torch.stack(features, dim=1)))


class TorchTransformer(nn.Module):
    """torch.nn.Transformer with sinusoidal positions and a tied output layer.

    Dropout is applied to embeddings and to the outputs of sublayers, as in Alignax.
    torch.nn.Transformer would also apply it to attention weights and feed-forward activations.
    """

    positions: Tensor  # a buffer

    def __init__(
        self, size: int, layers: int, features: int, heads: int, feed_forward: int, dropout: float
    ):
        super().__init__()
        self.embed = nn.Embedding(size, features)
        nn.init.normal_(self.embed.weight, std=features**-0.5)
        self.body = nn.Transformer(
            features, heads, layers, layers, feed_forward, dropout, batch_first=True
        )
        body: Any = self.body  # PyTorch's annotations hide the types of layers
        for layer in (*body.encoder.layers, *body.decoder.layers):
            layer.dropout = nn.Identity()  # of the feed-forward activations
        for module in self.body.modules():
            if isinstance(module, nn.MultiheadAttention):
                module.dropout = 0.0
        # Nested tensors need the lengths on the host, so a CUDA graph could not record the encoder.
        self.body.encoder.use_nested_tensor = False
        self.drop, self.features = nn.Dropout(dropout), features
        self.register_buffer("positions", _sinusoids(1024, features))

    def embedded(self, tokens: Tensor) -> Tensor:
        """Embed the tokens of whole sentences."""
        positions = self.positions[: tokens.shape[1]]
        return self.drop(self.embed(tokens) * math.sqrt(self.features) + positions)

    def forward(self, source: Tensor, tokens: Tensor) -> Tensor:
        """Return the logits of all target positions under teacher forcing."""
        padding = source == PAD
        later = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1], source.device)
        x = self.body(
            self.embedded(source), self.embedded(tokens), tgt_mask=later, tgt_is_causal=True,
            src_key_padding_mask=padding, memory_key_padding_mask=padding,
        )  # fmt: skip
        return functional.linear(x, self.embed.weight)

    def encode(self, source: Tensor, length: int) -> tuple[list, list]:
        """Return the cross-attention keys and values of every layer, and an empty KV cache.

        The cache has space for `length` target tokens. Its shape is therefore the same at every
        time step, and the time step is compiled once.
        """
        padding = source == PAD
        states = self.body.encoder(self.embedded(source), src_key_padding_mask=padding)
        mask = torch.zeros_like(padding, dtype=states.dtype).masked_fill(padding, -math.inf)
        body: Any = self.body
        mask, layers = mask[:, None, None], body.decoder.layers
        memory = [(*_keys_values(layer.multihead_attn, states), mask) for layer in layers]
        batch, heads, _, width = memory[0][0].shape
        empty = states.new_zeros(batch, heads, length, width)
        return memory, [(empty, empty) for _ in layers]

    def next(self, memory: list, cache: list, tokens: Tensor, t: Tensor) -> tuple[Tensor, list]:
        """Return the logits of the next token, and the KV cache with the keys and values of t."""
        length = cache[0][0].shape[2]
        seen = (torch.arange(length, device=tokens.device) <= t)[None, None, None]
        x = self.embed(tokens)[:, None] * math.sqrt(self.features) + self.positions[t]
        decoder: Any = self.body.decoder
        new = []
        for layer, (keys, values, mask), cached in zip(decoder.layers, memory, cache, strict=True):
            pairs = zip(cached, _keys_values(layer.self_attn, x), strict=True)
            new.append(tuple(old.index_copy(2, t, now) for old, now in pairs))
            x = layer.norm1(x + _attend(layer.self_attn, x, *new[-1], seen))  # pyright: ignore
            x = layer.norm2(x + _attend(layer.multihead_attn, x, keys, values, mask))
            x = layer.norm3(x + layer.linear2(functional.relu(layer.linear1(x))))
        return functional.linear(decoder.norm(x)[:, 0], self.embed.weight), new


def _sinusoids(length: int, features: int) -> Tensor:
    rates = 10_000.0 ** (-torch.arange(0, features, 2) / features)
    angles = torch.arange(length)[:, None] * rates
    return torch.stack([angles.sin(), angles.cos()], dim=-1).reshape(length, features)


def _heads(attention: nn.MultiheadAttention, x: Tensor) -> Tensor:
    return x.unflatten(-1, (attention.num_heads, -1)).transpose(1, 2)


def _keys_values(attention: nn.MultiheadAttention, x: Tensor) -> tuple[Tensor, ...]:
    d = attention.embed_dim
    both = functional.linear(x, attention.in_proj_weight[d:], attention.in_proj_bias[d:])
    return tuple(_heads(attention, part) for part in both.split(d, dim=-1))


def _attend(
    attention: nn.MultiheadAttention, x: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None
) -> Tensor:
    d = attention.embed_dim
    query = functional.linear(x, attention.in_proj_weight[:d], attention.in_proj_bias[:d])
    context = functional.scaled_dot_product_attention(_heads(attention, query), keys, values, mask)
    return attention.out_proj(context.transpose(1, 2).flatten(2))


def loss(model: nn.Module, source: Tensor, tokens: Tensor, target: Tensor) -> Tensor:
    """Return the cross-entropy, summed over all target tokens; `tokens` is the decoder input."""
    logits = model(source, tokens)
    return functional.cross_entropy(
        logits.flatten(0, 1).float(), target.flatten(), ignore_index=PAD, reduction="sum"
    )


@torch.no_grad()
def beam_search(
    model: nn.Module, source: Tensor, width: int, length: int, start: Callable, advance: Callable
) -> Tensor:
    """Return the best of `width` hypotheses of `length` tokens for every source sentence.

    `start` and `advance` are `start_beam` and `advance_beam`, or compiled versions of them. The
    results of a compiled function are not copied when CUDA graphs read them.
    """
    memory, state, tokens, total = start(model, source, width, length)
    for t in torch.arange(length, device=source.device).split(1):
        state, tokens, total = advance(model, memory, state, tokens, total, t)
    return tokens.view(len(source), width, -1)[:, 0, 1:]


def start_beam(
    model: Any, source: Tensor, width: int, length: int
) -> tuple[Any, Any, Tensor, Tensor]:
    """Encode the source; return memory, state, tokens and log-probabilities of all hypotheses."""
    batch, device = len(source), source.device
    rows = torch.arange(batch, device=device).repeat_interleave(width)
    memory, state = (select_rows(part, rows) for part in model.encode(source, length))
    tokens = torch.full((batch * width, length + 1), BOS, device=device)
    total = torch.full((batch, width), -math.inf, device=device)
    total[:, 0] = 0
    return memory, state, tokens, total


def advance_beam(
    model: Any, memory: Any, state: Any, tokens: Tensor, total: Tensor, t: Tensor
) -> tuple[Any, Tensor, Tensor]:
    """Compute time step t of beam search; return the new state, tokens and log-probabilities."""
    batch, width = total.shape
    logits, state = model.next(memory, state, tokens.index_select(1, t)[:, 0], t)
    log_p = logits.float().log_softmax(dim=-1)
    size = log_p.shape[-1]
    valid = torch.arange(size, device=tokens.device) > EOS
    log_p = log_p.where(valid, -math.inf)
    if width == 1:  # greedy decoding: no hypothesis changes its row
        best, token = log_p.max(dim=-1, keepdim=True)
        return state, tokens.index_copy(1, t + 1, token), total + best
    grown = total.unsqueeze(2) + log_p.view(batch, width, size)
    total, index = grown.view(batch, -1).topk(width)
    first = torch.arange(batch, device=tokens.device)[:, None] * width
    rows = (first + index // size).flatten()
    tokens = tokens[rows].index_copy(1, t + 1, (index % size).view(-1, 1))
    return select_rows(state, rows), tokens, total


def select_rows(state: Any, rows: Tensor) -> Any:
    """Return these rows of all tensors in nested tuples and lists."""
    if isinstance(state, Tensor):
        return state[rows]
    return type(state)(select_rows(part, rows) for part in state)
