"""How many tokens a second the engine decodes, as measured while it does."""

import math
from typing import Final

_MEMORY: Final = 0.9  # how much of what was known one decode leaves


class Speed:
    """A moving average over decodes, weighted by their tokens, the best of them, and totals."""

    def __init__(self) -> None:
        self._tokens = self._seconds = 0.0
        self.best_tokens_per_s = 0.0
        self.decodes_total = self.tokens_total = 0

    @property
    def tokens_per_s(self) -> float:
        """The average; infinite before the first measurement."""
        return self._tokens / self._seconds if self._seconds else math.inf

    def measure(self, tokens: int, elapsed_s: float) -> None:
        """Take one decode into account."""
        self.decodes_total += 1
        self.tokens_total += tokens
        self._tokens = self._tokens * _MEMORY + tokens
        self._seconds = self._seconds * _MEMORY + elapsed_s
        if elapsed_s > 0:
            self.best_tokens_per_s = max(self.best_tokens_per_s, tokens / elapsed_s)

    def forget_slow_start(self) -> None:
        """Begin again from the best: the first decodes also read the weights from disk."""
        self._tokens, self._seconds = self.best_tokens_per_s, 1.0
