"""Logits of the last position → probabilities over the options. Pure numpy, float64 throughout."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Readout:
    """What one row of logits says about a list of answer tokens, in their order.

    option_logits: the raw logits. probabilities: their softmax, summing to 1.
    allowed_token_mass: the answer tokens' share of the whole vocabulary's probability.
    full_vocab_argmax_id: the token the model would have written.
    """

    probabilities: tuple[float, ...]
    option_logits: tuple[float, ...]
    allowed_token_mass: float
    full_vocab_argmax_id: int


def log_sum_exp(logits: NDArray[np.float64]) -> float:
    """log(Σ exp(x)) without overflow. Shape (n,), n ≥ 1, all finite."""
    highest = logits.max()
    return float(highest + np.log(np.exp(logits - highest).sum()))


def read_options(logits: NDArray[np.float32], answer_token_ids: Sequence[int]) -> Readout:
    """Read the options' scores from logits of shape (n_vocab,).

    Raises FloatingPointError when a logit is not finite: no probability could be trusted then.
    """
    row = logits.astype(np.float64)
    if not np.isfinite(row).all():
        raise FloatingPointError("the model gave a logit that is not finite")
    chosen = row[np.asarray(answer_token_ids, dtype=np.intp)]
    chosen_log_sum = log_sum_exp(chosen)
    probabilities = np.exp(chosen - chosen.max())
    probabilities /= probabilities.sum()
    return Readout(
        probabilities=tuple(probabilities.tolist()),
        option_logits=tuple(chosen.tolist()),
        allowed_token_mass=min(1.0, float(np.exp(chosen_log_sum - log_sum_exp(row)))),
        full_vocab_argmax_id=int(row.argmax()),
    )
