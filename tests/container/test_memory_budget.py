"""The division of the memory into sequences, over all sizes, and on Qwen3.5-4B's numbers."""

import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from semif_server.errors import SettingsError
from semif_server.memory_budget import (
    CELL_PAD_TOKENS,
    MOST_SEQUENCES,
    Budget,
    MemoryCost,
    MemoryPlan,
    check_trained_context,
    given_budget,
    gpu_budget,
    host_budget,
    plan_memory,
)

MIB, GIB = 2**20, 2**30

# Qwen3.5-4B: 32 layers, every fourth full attention.
ATTENTION_LAYERS, DELTA_LAYERS = 8, 24
# Keys and values of 4 heads × 256 in F16.
CELL_BYTES = ATTENTION_LAYERS * 2 * (4 * 256) * 2
# 32 value heads × 128 × 128 in F32; and, for a kernel of 4, three columns of queries and keys (16 heads × 128
# each) and values (32 × 128), in F32.
STATE_BYTES = DELTA_LAYERS * (32 * 128 * 128 + 3 * (2 * 16 * 128 + 32 * 128)) * 4
QWEN_4B = MemoryCost(CELL_BYTES, STATE_BYTES)
QWEN_4B_WEIGHTS_BYTES = 3_013_027_808

costs = st.builds(MemoryCost, st.integers(0, 1_000_000), st.integers(0, 100_000_000)).filter(
    lambda cost: cost.cell_bytes + cost.state_bytes > 0
)
budgets = st.integers(0, 2**40).flatmap(
    lambda most: st.builds(Budget, st.integers(0, most), st.just(most), st.just("machine"))
)
tokens = st.integers(64, 1_048_576)
wishes = st.one_of(st.none(), st.integers(2, 256))
fewests = st.sampled_from([2, 3])


def test_the_numbers_of_qwen_4b() -> None:
    assert (CELL_BYTES, STATE_BYTES) == (32_768, 52_690_944)
    assert QWEN_4B.sequence_bytes(4096) == 134_217_728 + 52_690_944 == 186_908_672


@pytest.mark.parametrize(
    ("max_tokens", "sequences", "fewest", "expected"),
    [
        (4096, None, 3, (16, 4096, 65_536)),
        (8192, None, 3, (9, 8192, 73_728)),
        (32_768, None, 3, (3, 32_768, 98_304)),  # more than is comfortable, for one request to fit
        (4096, 5, 3, (5, 4096, 20_480)),
        (4000, 5, 3, (5, 4096, 20_480)),
        (4097, 5, 3, (5, 4352, 21_760)),
        (512, 40, 3, (40, 512, 20_480)),  # many short ones, beyond the default's end
    ],
)
def test_qwen_4b_on_a_machine_of_16_gib(
    max_tokens: int, sequences: int | None, fewest: int, expected: tuple[int, int, int]
) -> None:
    budget = host_budget(16 * GIB, "machine", QWEN_4B_WEIGHTS_BYTES)
    plan = plan_memory(QWEN_4B, budget, max_tokens=max_tokens, sequences=sequences, fewest=fewest)
    assert (plan.sequences, plan.sequence_tokens, plan.n_ctx) == expected
    assert plan.kv_bytes == plan.n_ctx * 32_768
    assert plan.state_bytes == plan.sequences * 52_690_944


def test_qwen_4b_with_its_trained_context_does_not_fit_in_16_gib() -> None:
    budget = host_budget(16 * GIB, "cgroup", QWEN_4B_WEIGHTS_BYTES)
    with pytest.raises(SettingsError) as caught:
        plan_memory(QWEN_4B, budget, max_tokens=262_144, sequences=None, fewest=3)
    assert str(caught.value) == (
        "SEMIF_MAX_TOKENS=262144: its memory does not fit. 3 sequences, the fewest possible,"
        " × (262,144 cells × 32,768 bytes + 52,690,944 bytes of state) = 25,927,876,608 bytes, and there are"
        " 6,814,985,232 (half of what the model leaves of the container's memory limit). These would do:"
        " SEMIF_CACHE_BYTES=25927876608, if the memory is there, or SEMIF_MAX_TOKENS=67584."
    )


def test_more_sequences_than_fit_are_refused_with_how_many_would() -> None:
    with pytest.raises(SettingsError, match=r"or SEMIF_MAX_TOKENS=256, or SEMIF_SEQUENCES=5\.$"):
        plan_memory(QWEN_4B, given_budget(GIB), max_tokens=4096, sequences=16, fewest=3)
    assert plan_memory(QWEN_4B, given_budget(GIB), max_tokens=256, sequences=16, fewest=3).sequences == 16
    assert plan_memory(QWEN_4B, given_budget(GIB), max_tokens=4096, sequences=5, fewest=3).sequences == 5


def test_fewer_sequences_than_the_engine_can_work_with_are_refused() -> None:
    with pytest.raises(SettingsError, match="SEMIF_SEQUENCES=2: this model needs 3 or more"):
        plan_memory(QWEN_4B, given_budget(GIB), max_tokens=256, sequences=2, fewest=3)
    assert plan_memory(QWEN_4B, given_budget(GIB), max_tokens=256, sequences=2, fewest=2).sequences == 2


def test_prompts_longer_than_the_model_was_trained_on_are_refused() -> None:
    check_trained_context(4096, 4096)
    with pytest.raises(SettingsError, match=r"^SEMIF_MAX_TOKENS=4097: the model was trained on 4096 tokens"):
        check_trained_context(4097, 4096)


@given(cost=costs, budget=budgets, max_tokens=tokens, sequences=wishes, fewest=fewests)
def test_a_plan_fits_and_holds_the_longest_prompt(
    cost: MemoryCost, budget: Budget, max_tokens: int, sequences: int | None, fewest: int
) -> None:
    try:
        plan = plan_memory(cost, budget, max_tokens=max_tokens, sequences=sequences, fewest=fewest)
    except SettingsError:
        return
    assert plan.total_bytes == plan.kv_bytes + plan.state_bytes <= plan.budget_bytes <= budget.most_bytes
    assert plan.kv_bytes == plan.n_ctx * cost.cell_bytes
    assert plan.state_bytes == plan.sequences * cost.state_bytes
    assert plan.n_ctx == plan.sequences * plan.sequence_tokens
    assert plan.sequence_tokens % CELL_PAD_TOKENS == 0
    assert 0 <= plan.sequence_tokens - max_tokens < CELL_PAD_TOKENS
    assert plan.sequences >= fewest
    if sequences is None:
        assert plan.sequences <= MOST_SEQUENCES
        # One more would be uncomfortable, or useless.
        each_bytes = plan.total_bytes // plan.sequences
        assert plan.sequences == MOST_SEQUENCES or plan.total_bytes + each_bytes > budget.comfortable_bytes
    else:
        assert plan.sequences == sequences


@given(cost=costs, budget=budgets, max_tokens=tokens, sequences=wishes, fewest=fewests)
def test_a_refusal_is_true_and_its_remedies_do(
    cost: MemoryCost, budget: Budget, max_tokens: int, sequences: int | None, fewest: int
) -> None:
    assume(sequences is None or sequences >= fewest)

    def plan(
        budget: Budget = budget, max_tokens: int = max_tokens, wish: int | None = sequences
    ) -> MemoryPlan:
        return plan_memory(cost, budget, max_tokens=max_tokens, sequences=wish, fewest=fewest)

    try:
        plan()
    except SettingsError as error:
        message = str(error)
    else:
        return
    count = sequences or fewest
    cells = -(-max_tokens // CELL_PAD_TOKENS) * CELL_PAD_TOKENS
    assert count * cost.sequence_bytes(cells) > budget.most_bytes
    remedies = dict(re.findall(r"(SEMIF_[A-Z_]+)=(\d+)", message.partition("These would do: ")[2]))
    assert plan(budget=given_budget(int(remedies["SEMIF_CACHE_BYTES"]))).sequences >= count
    if "SEMIF_MAX_TOKENS" in remedies:
        assert plan(max_tokens=int(remedies["SEMIF_MAX_TOKENS"])).sequences >= fewest
    else:
        assert count * cost.sequence_bytes(CELL_PAD_TOKENS) > budget.most_bytes
    if "SEMIF_SEQUENCES" in remedies:
        assert plan(wish=int(remedies["SEMIF_SEQUENCES"])).sequences < count


@given(
    limit=st.integers(0, 2**45),
    weights=st.integers(0, 2**42),
)
def test_a_host_budget_leaves_room_for_the_weights(limit: int, weights: int) -> None:
    budget = host_budget(limit, "machine", weights)
    assert 0 <= budget.comfortable_bytes <= budget.most_bytes
    assert weights + budget.most_bytes <= limit or budget.most_bytes == 0
    assert budget.comfortable_bytes <= max(512 * MIB, weights)


def test_a_small_container_still_has_a_budget() -> None:
    small = host_budget(256 * MIB, "cgroup", 98_362_432)
    assert small.most_bytes == (256 * MIB - 98_362_432 - 64 * MIB) // 2
    assert host_budget(64 * MIB, "cgroup", 98_362_432).most_bytes == 0


def test_a_gpu_is_filled_but_for_a_tenth() -> None:
    assert gpu_budget(10 * GIB).most_bytes == 9 * GIB == gpu_budget(10 * GIB).comfortable_bytes
    plan = plan_memory(QWEN_4B, gpu_budget(20 * GIB), max_tokens=32_768, sequences=None, fewest=3)
    assert plan.sequences == 16
