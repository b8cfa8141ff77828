"""How many sequences of how many tokens the model's memory is made of. Pure: numbers in, a plan out.

Each sequence has cells of its own for sequence_tokens positions (attention's keys and values, so many bytes
a cell) and, in recurrent and hybrid models, a state of fixed size. Both are taken when the server starts:

    sequences × (cells × bytes per cell + bytes of state) ≤ budget
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from semif_server.errors import SettingsError

CELL_PAD_TOKENS: Final = 256  # llama.cpp rounds the cells of a sequence up to these
MOST_SEQUENCES: Final = 16  # beyond, more would hold states that hardly anybody comes back to

_RESERVE_BYTES: Final = 512 * 2**20  # the process itself and what a decode computes in
_COMFORTABLE_BYTES: Final = 512 * 2**20
_GPU_SHARE: Final = 0.9

Source = Literal["SEMIF_CACHE_BYTES", "cgroup", "machine", "gpu"]
_IN_WORDS: Final[Mapping[Source, str]] = {
    "SEMIF_CACHE_BYTES": "SEMIF_CACHE_BYTES",
    "cgroup": "half of what the model leaves of the container's memory limit",
    "machine": "half of what the model leaves of the machine's memory",
    "gpu": "what the model leaves of the GPU's memory",
}


@dataclass(frozen=True, slots=True)
class MemoryCost:
    """What one model's memory takes, as measured on it."""

    cell_bytes: int
    state_bytes: int

    def sequence_bytes(self, cells: int) -> int:
        """Bytes of one sequence with so many cells."""
        return cells * self.cell_bytes + self.state_bytes


@dataclass(frozen=True, slots=True)
class Budget:
    """Bytes that the memory may take.

    comfortable_bytes: up to here as many sequences are made as fit. most_bytes: up to here, if one request
    or the operator needs it. source: who limits it.
    """

    comfortable_bytes: int
    most_bytes: int
    source: Source


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """sequences × sequence_tokens cells = n_ctx, and what they take of which budget."""

    sequences: int
    sequence_tokens: int
    n_ctx: int
    kv_bytes: int
    state_bytes: int
    total_bytes: int
    budget_bytes: int
    budget_from: Source


def given_budget(cache_bytes: int) -> Budget:
    """What the operator allows."""
    return Budget(cache_bytes, cache_bytes, "SEMIF_CACHE_BYTES")


def host_budget(limit_bytes: int, limit_from: Literal["cgroup", "machine"], weights_bytes: int) -> Budget:
    """Half of what the weights and the process leave of this process's memory.

    llama.cpp clears all of it before the first decode, at about a second per GB where pages are slow to
    come. So unless a request needs more, it is no more than the weights, which are read then too.
    """
    reserve_bytes = min(_RESERVE_BYTES, limit_bytes // 4)
    most_bytes = max(0, limit_bytes - weights_bytes - reserve_bytes) // 2
    comfortable_bytes = min(most_bytes, max(_COMFORTABLE_BYTES, weights_bytes))
    return Budget(comfortable_bytes, most_bytes, limit_from)


def gpu_budget(free_bytes: int) -> Budget:
    """Nearly all that is free on the GPUs, with the weights and one small context on them."""
    budget_bytes = int(free_bytes * _GPU_SHARE)
    return Budget(budget_bytes, budget_bytes, "gpu")


def check_trained_context(max_tokens: int, trained_tokens: int) -> None:
    """Raise SettingsError if prompts could be longer than any that the model has learnt from."""
    if max_tokens > trained_tokens:
        raise SettingsError(
            f"SEMIF_MAX_TOKENS={max_tokens}: the model was trained on {trained_tokens} tokens; longer prompts"
            f" would be misread. Set it to {trained_tokens} or less."
        )


def check_head(max_tokens: int, head_tokens: int) -> None:
    """Raise SettingsError if what all prompts begin with leaves no room for anything else."""
    if head_tokens >= max_tokens:
        raise SettingsError(
            f"SEMIF_MAX_TOKENS={max_tokens}: every prompt begins with {head_tokens} tokens, so no decision"
            " fits. Raise it."
        )


def plan_memory(
    cost: MemoryCost, budget: Budget, *, max_tokens: int, sequences: int | None, fewest: int
) -> MemoryPlan:
    """Divide the budget into sequences of at least max_tokens.

    sequences: how many the operator wants, None for as many as are comfortable. fewest: with which the
    engine can work. Raises SettingsError with the whole sum, and with values that would do.
    """
    if sequences is not None and sequences < fewest:
        raise SettingsError(
            f"SEMIF_SEQUENCES={sequences}: this model needs {fewest} or more, since a prefix that is kept"
            " can't be worked in. Raise it, or leave it out."
        )
    cells = -(-max_tokens // CELL_PAD_TOKENS) * CELL_PAD_TOKENS
    each_bytes = max(1, cost.sequence_bytes(cells))
    count = sequences or max(fewest, min(MOST_SEQUENCES, budget.comfortable_bytes // each_bytes))
    total_bytes = count * each_bytes
    if total_bytes > budget.most_bytes:
        raise _too_small(cost, budget, max_tokens=max_tokens, cells=cells, count=count, fewest=fewest)
    return MemoryPlan(
        sequences=count,
        sequence_tokens=cells,
        n_ctx=count * cells,
        kv_bytes=count * cells * cost.cell_bytes,
        state_bytes=count * cost.state_bytes,
        total_bytes=count * cost.sequence_bytes(cells),
        budget_bytes=budget.comfortable_bytes
        if total_bytes <= budget.comfortable_bytes
        else budget.most_bytes,
        budget_from=budget.source,
    )


def _too_small(
    cost: MemoryCost, budget: Budget, *, max_tokens: int, cells: int, count: int, fewest: int
) -> SettingsError:
    each_bytes = cost.sequence_bytes(cells)
    room_bytes = budget.most_bytes // count - cost.state_bytes
    tokens = room_bytes // max(1, cost.cell_bytes) // CELL_PAD_TOKENS * CELL_PAD_TOKENS
    remedies = [f"SEMIF_CACHE_BYTES={count * each_bytes}, if the memory is there"]
    if tokens > 0:
        remedies.append(f"SEMIF_MAX_TOKENS={tokens}")
    fitting = budget.most_bytes // each_bytes
    if fitting >= fewest:
        remedies.append(f"SEMIF_SEQUENCES={fitting}")
    return SettingsError(
        f"SEMIF_MAX_TOKENS={max_tokens}: its memory does not fit. {count} sequences"
        f"{'' if count > fewest else ', the fewest possible'}, × ({cells:,} cells × {cost.cell_bytes:,} bytes"
        f" + {cost.state_bytes:,} bytes of state) = {count * each_bytes:,} bytes, and there are"
        f" {budget.most_bytes:,} ({_IN_WORDS[budget.source]}). These would do: {', or '.join(remedies)}."
    )
