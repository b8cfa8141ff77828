"""What the account's quotas rule out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from instance_pool.preflight import Limit, preflight, quota_type, refusal, skipped_text

TYPE = "ml.g6e.xlarge"
UPDATES = ["all-at-once", "canary", "rolling", "recreate"]


def limit(quota: float, in_use: int | None = 0, own: int = 0) -> dict[str, Limit]:
    return {TYPE: Limit(f"{TYPE} for endpoint usage", "L-1A2B", quota, in_use, own)}


def test_missing_quota_is_named_with_value_and_command() -> None:
    skip = preflight([TYPE], limit(0), needed=1, creating=True)[TYPE]

    assert skip.text == (
        'ml.g6e.xlarge skipped: quota "ml.g6e.xlarge for endpoint usage" is 0. Ask for 2: '
        "aws service-quotas request-service-quota-increase --service-code sagemaker"
        " --quota-code L-1A2B --desired-value 2"
    )


def test_type_that_is_not_listed_is_not_offered() -> None:
    skips = preflight(["ml.p5.48xlarge", TYPE], limit(4), needed=1, creating=True)

    assert skips["ml.p5.48xlarge"].text == (
        "ml.p5.48xlarge skipped: not offered in this region: Service Quotas lists no "
        '"ml.p5.48xlarge for endpoint usage". Remove ml.p5.48xlarge from the endpoint\'s pool in cdk.json.'
    )
    assert TYPE not in skips


@pytest.mark.parametrize(
    ("update", "quota", "own", "ask_for"),
    [
        ("all-at-once", 3, 2, 4),
        ("canary", 3, 2, 4),
        ("rolling", 2, 2, 3),  # a batch of half the fleet
        ("recreate", 1, 2, 2),
    ],
)
def test_update_needs_its_surge(update: str, quota: int, own: int, ask_for: int) -> None:
    ask = {"needed": 2, "creating": False, "update": update, "batch_percent": 50}

    skip = preflight([TYPE], limit(quota, own, own), **ask)[TYPE]  # type: ignore[arg-type]

    assert f"is {quota}, {own} in use" in skip.why
    assert skip.ask_for == ask_for
    assert preflight([TYPE], limit(ask_for, own, own), **ask) == {}  # type: ignore[arg-type]


def test_surge_is_told_as_such() -> None:
    (skip,) = preflight([TYPE], limit(1, 1, 1), needed=1, creating=False).values()

    assert skip.why == (
        'quota "ml.g6e.xlarge for endpoint usage" is 1, 1 in use, 1 more needed beside the fleet that serves'
    )


def test_rolling_to_another_type_needs_the_whole_fleet() -> None:
    change = {"needed": 4, "creating": False, "update": "rolling", "batch_percent": 25}

    assert preflight([TYPE], limit(3), **change)[TYPE].ask_for == 5  # type: ignore[arg-type]
    assert preflight([TYPE], limit(4), **change) == {}  # type: ignore[arg-type]


def test_use_by_other_endpoints_counts_for_a_create() -> None:
    assert preflight([TYPE], limit(2, 2), needed=1, creating=True)[TYPE].ask_for == 4
    assert preflight([TYPE], limit(3, 2), needed=1, creating=True) == {}


def test_uncounted_use_leaves_the_quota_alone_to_judge() -> None:
    assert preflight([TYPE], limit(1, None), needed=1, creating=True) == {}
    assert TYPE in preflight([TYPE], limit(1, None), needed=2, creating=True)
    assert TYPE in preflight([TYPE], limit(1, None, own=1), needed=1, creating=False)


def test_no_listing_rules_nothing_out() -> None:
    assert preflight([TYPE], None, needed=1, creating=True) == {}


def test_refusal_says_what_to_ask_for() -> None:
    skips = preflight(["ml.p5.48xlarge", TYPE], limit(0), needed=1, creating=True)

    reason, advice = refusal(skips)

    assert 'ml.g6e.xlarge: quota "ml.g6e.xlarge for endpoint usage" is 0' in reason
    assert advice.startswith("Ask for 2: aws service-quotas")
    assert refusal({"ml.p5.48xlarge": skips["ml.p5.48xlarge"]})[1] == (
        "Choose instance types that this region offers."
    )


def test_many_refused_types_are_counted() -> None:
    reason, _ = refusal(preflight([f"ml.g{n}.xlarge" for n in range(9)], {}, needed=1, creating=True))

    assert "; 6 more." in reason


def test_tag_text_is_short() -> None:
    skips = preflight([TYPE, "ml.p5.48xlarge"], limit(1, 1), needed=1, creating=True)

    assert skipped_text(skips) == (
        "ml.g6e.xlarge: quota is 1, 1 in use, 1 more needed / ml.p5.48xlarge: not offered in this region"
    )


def test_only_endpoint_quotas_are_read() -> None:
    assert quota_type("ml.g6e.xlarge for endpoint usage") == "ml.g6e.xlarge"
    assert quota_type("ml.g6e.xlarge for training job usage") is None
    assert quota_type("Total number of instances for endpoint usage") is None


@given(
    quota=st.integers(0, 12),
    fleets=st.tuples(st.integers(0, 6), st.integers(0, 6)),
    needed=st.integers(1, 6),
    update=st.sampled_from(UPDATES),
    batch=st.sampled_from([5, 25, 50]),
)
def test_a_type_passes_exactly_if_the_change_never_holds_more_than_the_quota(
    quota: int, fleets: tuple[int, int], needed: int, update: str, batch: int
) -> None:
    others, own = fleets
    peak = {
        "recreate": others + max(needed, 0),
        "rolling": _rolling_peak(others, own, needed, -(-needed * batch // 100)),
    }.get(update, others + own + needed)

    skips = preflight(
        [TYPE],
        limit(quota, others + own, own),
        needed=needed,
        creating=False,
        update=update,
        batch_percent=batch,
    )

    assert (TYPE in skips) == (quota < peak)
    if skips:
        assert (skips[TYPE].ask_for or 0) >= peak


def _rolling_peak(others: int, own: int, needed: int, batch: int) -> int:
    """Play the batches: each comes up before as many of the old fleet go."""
    old, new, peak = own, 0, others + own
    while new < needed:
        step = min(batch, needed - new)
        peak = max(peak, others + old + new + step)
        new += step
        old = max(old - step, 0)
    return peak
