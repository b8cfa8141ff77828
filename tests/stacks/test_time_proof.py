"""The time proof: what it refuses, and that each choice it offers is one."""

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stacks.mapping_reader import SettingsError
from stacks.regions import PoolStrategy
from stacks.time_proof import BUDGET_S, MARGIN_S, SERIAL_FAILURE_S, WalkTimes, prove
from stacks.update_settings import UpdateSettings

ALL_AT_ONCE = UpdateSettings("all-at-once", None, None, None, 0)
UPDATES = st.one_of(
    st.builds(UpdateSettings, st.just("all-at-once"), st.none(), st.none(), st.none(), st.integers(0, 1800)),
    st.builds(
        UpdateSettings, st.just("canary"), st.just(10), st.none(), st.integers(0, 1800), st.integers(0, 1800)
    ),
    st.builds(
        UpdateSettings, st.just("rolling"), st.none(), st.integers(5, 50), st.integers(0, 1800), st.none()
    ),
    st.just(UpdateSettings("recreate", None, None, None, None)),
)
WALKS = st.builds(
    WalkTimes,
    rounds=st.integers(1, 8),
    strategy=st.sampled_from(("native", "serial")),
    provision_timeout_s=st.integers(300, 3600),
    download_timeout_s=st.integers(60, 3600),
    startup_timeout_s=st.integers(60, 3600),
    update=UPDATES,
    instance_count=st.integers(2, 100),
)


def times(rounds: int, strategy: PoolStrategy, **more: Any) -> WalkTimes:
    values: dict[str, Any] = {
        "provision_timeout_s": 1200,
        "download_timeout_s": 900,
        "startup_timeout_s": 600,
        "update": ALL_AT_ONCE,
        "instance_count": 1,
    }
    return WalkTimes(rounds=rounds, strategy=strategy, **(values | more))


def refusal(walk: WalkTimes) -> str:
    with pytest.raises(SettingsError) as caught:
        prove(walk, "pool")
    return str(caught.value)


@pytest.mark.parametrize(
    ("walk", "worst_case_s"),
    [
        (times(1, "native"), 1620),
        (times(2, "native"), 2820),
        (times(1, "serial"), 1620),
        (times(2, "serial", download_timeout_s=300), SERIAL_FAILURE_S + 300 + 600 + MARGIN_S),
        (
            times(2, "native", provision_timeout_s=300, update=UpdateSettings("canary", 10, None, 500, 60)),
            300 + 900 + 600 + 560 + MARGIN_S,
        ),
        (
            times(1, "native", instance_count=4, update=UpdateSettings("rolling", None, 50, 60, None)),
            2 * (900 + 600 + 60) + MARGIN_S,
        ),
    ],
)
def test_the_sum(walk: WalkTimes, worst_case_s: int) -> None:
    assert walk.worst_case_s == worst_case_s


@given(WALKS)
def test_every_choice_with_a_number_holds_and_no_more(walk: WalkTimes) -> None:
    if walk.worst_case_s <= BUDGET_S:
        prove(walk, "pool")
        return
    text = refusal(walk)
    assert f"= {walk.worst_case_s} s for" in text
    if found := re.search(r"at most (\d+) rounds?", text):
        rounds = int(found[1])
        assert rounds < walk.rounds
        if rounds > 1:
            prove(replace(walk, rounds=rounds), "pool")
        assert replace(walk, rounds=rounds + 1).worst_case_s > BUDGET_S
    if found := re.search(r"provision_timeout_s of at most (\d+)", text):
        prove(replace(walk, provision_timeout_s=int(found[1])), "pool")
        assert replace(walk, provision_timeout_s=int(found[1]) + 1).worst_case_s > BUDGET_S
    if found := re.search(r"of at most (\d+) s together", text):
        together_s = int(found[1])
        prove(replace(walk, download_timeout_s=60, startup_timeout_s=together_s - 60), "pool")
        longer = replace(walk, download_timeout_s=60, startup_timeout_s=together_s - 59)
        assert longer.worst_case_s > BUDGET_S


def test_a_refusal_always_says_what_to_do() -> None:
    hopeless = times(8, "serial", download_timeout_s=3600, startup_timeout_s=3600)
    assert "Choose: fewer types or no last_resort" in refusal(hopeless)
    single = times(1, "native", download_timeout_s=3000, startup_timeout_s=600)
    assert refusal(single).endswith(
        "Choose: download_timeout_s and startup_timeout_s of at most 2880 s together"
    )
