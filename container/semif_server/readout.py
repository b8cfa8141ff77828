"""Logits of the last position → probabilities over the options. Pure numpy, sums in float64."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Readout:
    """What the logits say about a list of codes, in their order.

    option_logits: the raw logits of single tokens; of codes of two tokens log p(first) + log p(second |
    first) over the whole vocabulary. probabilities: the softmax of option_logits, summing to 1.
    allowed_token_mass: the codes' share of the whole vocabulary's probability.
    full_vocab_argmax_id: the token the model would have written.
    """

    probabilities: tuple[float, ...]
    option_logits: tuple[float, ...]
    allowed_token_mass: float
    full_vocab_argmax_id: int


def log_sum_exp(logits: NDArray[np.floating[Any]]) -> float:
    """log(Σ exp(x)) without overflow, in float64. Shape (n,), n ≥ 1.

    Raises FloatingPointError when a logit is not finite: no probability could be trusted then.
    """
    highest = float(logits.max())
    # Both carry a NaN along, and tell of an infinity of either sign.
    if not (np.isfinite(highest) and np.isfinite(logits.min())):
        raise FloatingPointError("the model gave a logit that is not finite")
    # A whole vocabulary: one array of float64, worked on in place.
    shifted = np.subtract(logits, highest, dtype=np.float64)
    return highest + float(np.log(np.exp(shifted, out=shifted).sum()))


def read_options(
    first: NDArray[np.float32], codes: Sequence[tuple[int, ...]], seconds: Mapping[int, NDArray[np.float32]]
) -> Readout:
    """Read the options' scores.

    first: logits behind the prompt, shape (n_vocab,). codes: one or two token ids per option. seconds: by
    token id, the logits behind the prompt and that token, for the first tokens of all codes of two.
    Raises FloatingPointError when a logit is not finite.
    """
    total = log_sum_exp(first)
    scores = first[[code[0] for code in codes]].astype(np.float64)
    if any(len(code) > 1 for code in codes):
        scores -= total
        totals = {token: log_sum_exp(logits) for token, logits in seconds.items()}
        for index, code in enumerate(codes):
            if len(code) > 1:
                scores[index] += float(seconds[code[0]][code[1]]) - totals[code[0]]
        total = 0.0
    probabilities = np.exp(scores - scores.max())
    probabilities /= probabilities.sum()
    return Readout(
        probabilities=tuple(probabilities.tolist()),
        option_logits=tuple(scores.tolist()),
        allowed_token_mass=min(1.0, float(np.exp(log_sum_exp(scores) - total))),
        full_vocab_argmax_id=int(first.argmax()),
    )
