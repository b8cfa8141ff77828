"""Compares two files of logits by a stated tolerance; a process of its own.

    python -m bench.gpu.compare EXPECTED.npy FOUND.npy

Prints one line of JSON. The tolerance is for the tiny hybrid: weights of 32 bits, logits of deviation near 1.
A GPU may multiply such weights in TF32 (10 bits of mantissa, relative rounding of 5e-4 a product) and sums in
another order: a few hundredths over four layers at most. A wrong kernel, or a state at a wrong place, gives
differences of the size of the logits themselves.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

TOLERANCE: Final = 0.05


def compare(expected: NDArray[np.float32], found: NDArray[np.float32]) -> dict[str, Any]:
    """How far two arrays of logits, shape (tokens, n_vocab), are apart.

    within: whether no logit differs by more than TOLERANCE, and the best token differs only where the two
    best expected ones lie within twice of that.
    """
    if expected.shape != found.shape:
        raise ValueError(f"shapes differ: {expected.shape} and {found.shape}")
    difference = float(np.abs(expected - found).max())
    best = np.sort(expected, axis=1)[:, -2:]
    margin = best[:, 1] - best[:, 0]
    flips = expected.argmax(axis=1) != found.argmax(axis=1)
    clear_flips = int((flips & (margin > 2 * TOLERANCE)).sum())
    return {
        "largest_difference": difference,
        "tolerance": TOLERANCE,
        "rows": len(expected),
        "argmax_flips": int(flips.sum()),
        "argmax_flips_beyond_tolerance": clear_flips,
        # Written so that a logit that is no number is not within.
        "within": difference <= TOLERANCE and clear_flips == 0,
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Compare two files of logits.")
    parser.add_argument("expected", type=Path)
    parser.add_argument("found", type=Path)
    chosen = parser.parse_args(arguments)
    print(json.dumps(compare(np.load(chosen.expected), np.load(chosen.found))))


if __name__ == "__main__":
    main()
