"""A short soak: the same code as `make soak`, with fewer requests."""

import json
from pathlib import Path
from typing import Any

import pytest

from tools.make_tiny_hybrid import write_tiny_hybrid
from tools.soak import CONTEXT_TOKENS, soak_fuzzed, soak_mixed, soak_model
from tools.soak_cases import Kind, make_decisions
from tools.soak_fuzz import fuzzed_body
from tools.soak_run import Figures, SoakError, check_answer

SEED = 7
# The allocator still settles in so short a run; `make soak` holds the growth of a long one to 2 %.
SHORT_RUN_GROWTH = 0.15


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_hybrid(
        tmp_path_factory.mktemp("soak") / "tiny-hybrid.gguf", context_tokens=CONTEXT_TOKENS
    )


def test_two_thousand_mixed_requests_get_their_own_answers(tiny: Path) -> None:
    figures = soak_mixed(tiny, 2000, SEED, batching="exact", sequences=4)
    assert set(figures.kinds) == set(Kind)
    assert set(figures.statuses) == {200, 400}
    assert figures.compared > 1500
    assert figures.growth <= SHORT_RUN_GROWTH


def test_shared_decodes_give_nobody_the_answer_of_another(tiny: Path) -> None:
    figures = soak_mixed(tiny, 400, SEED, batching="throughput", sequences=9)
    assert figures.compared > 300


def test_two_thousand_fuzzed_bodies_end_in_no_fault(tiny: Path) -> None:
    figures = soak_fuzzed(tiny, 2000, SEED)
    assert sum(figures.statuses.values()) == 2000
    assert {200, 400} <= set(figures.statuses)
    assert figures.growth <= SHORT_RUN_GROWTH


def test_mixed_requests_on_the_real_model() -> None:
    assert soak_model(16, SEED, markers=8).compared > 8


def _answers() -> tuple[dict[str, Any], dict[str, Any]]:
    base = {"id": "a", "option_logits": [1.0, 2.0], "cached_tokens": 3, "total_seconds": 0.1}
    return base, base | {"id": "b", "option_logits": [1.0, 2.5]}


@pytest.mark.parametrize("exact", [True, False])
def test_a_mix_up_would_be_seen(*, exact: bool) -> None:
    fresh = _answers()
    check_answer(Figures(1), "x", (0, 1), [dict(one, cached_tokens=9) for one in fresh], fresh, exact=exact)
    with pytest.raises(SoakError, match="instead of"):
        check_answer(Figures(1), "x", (0, 1), list(reversed(fresh)), fresh, exact=exact)
    swapped = dict(fresh[0], option_logits=fresh[1]["option_logits"])
    with pytest.raises(SoakError, match="instead of"):
        check_answer(Figures(1), "x", (0,), [swapped], fresh, exact=exact)


def test_fuzzed_bodies_are_repeatable_and_differ() -> None:
    valid = {"decision": {"id": "x"}}
    bodies = [fuzzed_body(1, number, valid) for number in range(200)]
    assert bodies == [fuzzed_body(1, number, valid) for number in range(200)]
    assert len(set(bodies)) > 100


def test_markers_are_repeatable_and_differ() -> None:
    decisions = make_decisions(3, 40)
    assert decisions == make_decisions(3, 40)
    assert len({json.dumps(one) for one in decisions}) == 40
