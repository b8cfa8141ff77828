"""What a climb does next, from what is known."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from instance_pool.attempts import Attempt, Outcome
from instance_pool.climb import NOTHING_BETTER, Readiness, Target, decide_climb, targets_above
from instance_pool.observation import (
    Configuration,
    Endpoint,
    EndpointStatus,
    Observation,
    Ownership,
    Survey,
)
from instance_pool.pool import Pool, Round, UpdateMode
from instance_pool.preflight import Limit
from instance_pool.steps import DeleteConfigurations, Done, Fail, ReadLimits, Record, Start, Wait

NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)
A, B, C, D = "ml.g6e.xlarge", "ml.g6.2xlarge", "ml.g5.2xlarge", "ml.c6i.2xlarge"
POOL = Pool(
    endpoint_name="semif-dev-decisions",
    variant_name="AllTraffic",
    rounds=(Round((A, B), "m", 1), Round((C,), "m", 1), Round((D,), "small", 1, last_resort=True)),
    native=True,
    provision_timeout_s=1200,
    download_timeout_s=900,
    startup_timeout_s=600,
)
READY = Readiness("CREATE_COMPLETE", current_instances=1, desired_instances=1)
PLENTY = Survey(read=True, limits={t: Limit(f"{t} for endpoint usage", "L-1", 20, 0) for t in (A, B, C, D)})


def configuration(
    index: int, types: Sequence[str] = (), request: str = "climb-1", age_s: int = 600, **attempt: Any
) -> Configuration:
    tried = tuple(types) or POOL.rounds[index].types
    name = POOL.attempt_name(index, tried, request) if request.startswith("climb") else POOL.round_name(index)
    made = NOW - timedelta(seconds=age_s)
    return Configuration(name, f"arn:{name}", made, Attempt(request, tried, **attempt))


SERVES_B = configuration(0, request="deployment", outcome=Outcome.IN_SERVICE)


def observed(
    *configurations: Configuration,
    serving: Configuration | None = None,
    types: tuple[str, ...] = (B,),
    status: EndpointStatus = EndpointStatus.IN_SERVICE,
    survey: Survey = PLENTY,
    **more: Any,
) -> Observation:
    serving = serving or configurations[0]
    endpoint = Endpoint(
        arn="arn",
        status=status,
        configuration_name=serving.name,
        failure_reason=more.pop("reason", ""),
        created_at=NOW - timedelta(days=1),
        serving_types=types,
        ownership=more.pop("ownership", Ownership.OURS),
    )
    return Observation(
        NOW, "climb-1", endpoint, configurations, started_at=more.pop("started_at", NOW), survey=survey
    )


def not_read() -> Readiness:
    raise AssertionError("nothing was to be begun")


def decide(observation: Observation, readiness: Readiness = READY, pool: Pool = POOL) -> Any:
    return decide_climb(observation, pool, lambda: readiness)


def test_the_types_before_the_serving_one_are_tried_as_a_pool() -> None:
    step = decide(observed(SERVES_B))

    assert isinstance(step, Start)
    assert (step.index, step.types, step.how) == (0, (A,), "update")
    assert step.configuration_name == POOL.attempt_name(0, (A,), "climb-1")


@pytest.mark.parametrize(
    ("index", "serving", "targets"),
    [
        (0, (A,), []),
        (0, (B,), [Target(0, (A,))]),
        (0, (A, B), [Target(0, (A,))]),  # a mixed fleet is as good as its worst instance
        (0, (), [Target(0, (A, B))]),
        (1, (C,), [Target(0, (A, B))]),
        (2, (D,), [Target(0, (A, B)), Target(1, (C,))]),
    ],
)
def test_targets(index: int, serving: tuple[str, ...], targets: list[Target]) -> None:
    assert targets_above(POOL, index, serving) == targets


def test_nothing_is_better_than_the_first_type() -> None:
    step = decide_climb(observed(SERVES_B, types=(A,)), POOL, not_read)

    assert step == Done(0, "", NOTHING_BETTER)


@pytest.mark.parametrize(
    ("readiness", "code"),
    [
        (replace(READY, stack_status="UPDATE_IN_PROGRESS"), "stack_in_progress"),
        (replace(READY, stack_status="UPDATE_COMPLETE_CLEANUP_IN_PROGRESS"), "stack_in_progress"),
        (replace(READY, alarms=("errors",)), "alarm_active"),
        (replace(READY, scaling_under_way=True), "scaling_under_way"),
        (replace(READY, desired_instances=2), "scaling_under_way"),
    ],
)
def test_refused_before_anything_is_touched(readiness: Readiness, code: str) -> None:
    step = decide(observed(SERVES_B), readiness)

    assert isinstance(step, Fail)
    assert step.code == code


@pytest.mark.parametrize(
    "status", [EndpointStatus.UPDATING, EndpointStatus.SYSTEM_UPDATING, EndpointStatus.FAILED]
)
def test_refused_while_the_endpoint_is_not_in_service(status: EndpointStatus) -> None:
    step = decide_climb(observed(SERVES_B, status=status), POOL, not_read)

    assert isinstance(step, Fail)
    assert step.code == "endpoint_not_in_service"


def test_refused_where_a_deployment_has_changed_the_pool() -> None:
    other = replace(POOL, startup_timeout_s=700)

    step = decide_climb(observed(SERVES_B), other, not_read)

    assert isinstance(step, Fail)
    assert step.code == "pool_changed"


def test_another_stacks_endpoint_is_left_alone() -> None:
    step = decide_climb(observed(SERVES_B, ownership=Ownership.FOREIGN), POOL, not_read)

    assert isinstance(step, Fail)
    assert step.code == "endpoint_not_ours"


def test_no_endpoint() -> None:
    step = decide_climb(Observation(NOW, "climb-1", None, ()), POOL, not_read)

    assert isinstance(step, Fail)
    assert step.code == "endpoint_not_in_service"


def test_quotas_are_read_before_types_are_chosen() -> None:
    assert isinstance(decide(observed(SERVES_B, survey=Survey())), ReadLimits)


def test_types_without_quota_are_passed_over() -> None:
    limits = dict(PLENTY.limits or {}) | {A: Limit("a", "L-1", 0, 0)}
    serves_c = configuration(1, request="deployment", outcome=Outcome.IN_SERVICE)

    step = decide(observed(serves_c, types=(C,), survey=Survey(read=True, limits=limits)))

    assert isinstance(step, Start)
    assert step.types == (B,)
    assert step.skipped == ("ml.g6e.xlarge: quota is 0",)


def test_no_quota_for_anything_better_says_what_to_ask_for() -> None:
    survey = Survey(read=True, limits={A: Limit(f"{A} for endpoint usage", "L-7", 0, 0)})

    step = decide(observed(SERVES_B, survey=survey))

    assert isinstance(step, Fail)
    assert (step.code, step.advice.split(":")[0]) == ("no_quota", "Ask for 2")


def test_a_scaled_variant_needs_quota_for_what_it_has_been_scaled_to() -> None:
    survey = Survey(read=True, limits={A: Limit("a", "L-7", 2, 0)})
    scaled = replace(READY, current_instances=3, desired_instances=3)

    step = decide(observed(SERVES_B, survey=survey), scaled)

    assert isinstance(step, Fail)
    assert step.code == "no_quota"


def test_recreate_is_no_way_to_climb() -> None:
    """What serves stays, so the surge is needed: here the same type serves in a mixed fleet."""
    pool = replace(POOL, update=UpdateMode("recreate"))
    survey = Survey(read=True, limits={A: Limit("a", "L-7", 1, 1, own=1)})

    step = decide(observed(SERVES_B, types=(A, B), survey=survey), pool=pool)

    assert isinstance(step, Fail)
    assert step.code == "no_quota"


def test_left_overs_go_before_a_try() -> None:
    before = configuration(0, (A,), "climb-0", outcome=Outcome.CAPACITY)

    step = decide(observed(SERVES_B, before))

    assert isinstance(step, DeleteConfigurations)
    assert step.names == (before.name,)


def test_its_own_update_is_waited_for() -> None:
    mine = configuration(0, (A,), started_at=NOW)

    assert isinstance(
        decide_climb(observed(SERVES_B, mine, status=EndpointStatus.UPDATING), POOL, not_read), Wait
    )


def test_an_update_whose_answer_was_lost_is_begun_again_with_the_same_name() -> None:
    mine = configuration(0, (A,), age_s=20)

    step = decide(observed(SERVES_B, mine, survey=Survey()))

    assert isinstance(step, Start)
    assert (step.configuration_name, step.types) == (mine.name, (A,))


def test_a_failed_try_is_recorded_and_the_next_round_follows() -> None:
    serves_d = configuration(2, request="deployment", outcome=Outcome.IN_SERVICE)
    mine = configuration(0, started_at=NOW - timedelta(minutes=20))
    capacity = "Unable to provision requested ML compute capacity due to InsufficientInstanceCapacity error."

    step = decide_climb(observed(serves_d, mine, types=(D,), reason=capacity), POOL, not_read)
    assert isinstance(step, Record)
    assert step.outcome is Outcome.CAPACITY

    ended = replace(mine, attempt=replace(mine.attempt, outcome=Outcome.CAPACITY, reason=capacity))
    step = decide(observed(serves_d, ended, types=(D,)))
    assert isinstance(step, Start)
    assert (step.index, step.types) == (1, (C,))


def test_a_climb_that_found_no_capacity_says_so_again_and_again() -> None:
    ended = configuration(
        0, (A,), outcome=Outcome.CAPACITY, started_at=NOW - timedelta(minutes=20), ended_at=NOW
    )

    steps = {decide(observed(SERVES_B, ended)) for _ in range(3)}

    (step,) = steps
    assert isinstance(step, Fail)
    assert step.code == "no_capacity"
    assert step.attempts == "ml.g6e.xlarge: no capacity after 20 m 0 s"


def test_a_quota_refusal_leaves_the_other_types_of_the_round_to_try() -> None:
    serves_c = configuration(1, request="deployment", outcome=Outcome.IN_SERVICE)
    refused = configuration(0, outcome=Outcome.QUOTA, dropped=A, reason="ResourceLimitExceeded: …")

    step = decide(observed(serves_c, refused, types=(C,)))

    assert isinstance(step, Start)
    assert (step.index, step.types) == (0, (B,))
    assert step.configuration_name != refused.name

    both = configuration(0, (B,), outcome=Outcome.QUOTA, dropped=B, reason="ResourceLimitExceeded: …")
    step = decide(observed(serves_c, refused, both, types=(C,)))
    assert isinstance(step, Fail)
    assert step.code == "no_quota"


def test_a_broken_container_ends_the_climb() -> None:
    reason = "The primary container for production variant AllTraffic did not pass the ping health check."
    ended = configuration(0, (A,), outcome=Outcome.FAILED, reason=reason)

    step = decide_climb(observed(SERVES_B, ended), POOL, not_read)

    assert isinstance(step, Fail)
    assert step.code == "health_check_failed"
    assert step.advice.endswith("The endpoint serves on as it was.")


def test_a_second_try_that_would_not_end_in_time_is_not_begun() -> None:
    serves_d = configuration(2, request="deployment", outcome=Outcome.IN_SERVICE)
    ended = configuration(0, outcome=Outcome.CAPACITY, started_at=NOW - timedelta(minutes=40))

    step = decide(observed(serves_d, ended, types=(D,), started_at=NOW - timedelta(minutes=40)))

    assert isinstance(step, Fail)
    assert step.code == "no_capacity"
    assert "no time left" in step.reason


def test_success_records_sweeps_and_ends() -> None:
    mine = configuration(0, (A,), started_at=NOW - timedelta(minutes=6))
    step = decide_climb(observed(SERVES_B, mine, serving=mine, types=(A,)), POOL, not_read)
    assert step == Record(mine.name, Outcome.IN_SERVICE, "")

    ended = replace(mine, attempt=replace(mine.attempt, outcome=Outcome.IN_SERVICE, ended_at=NOW))
    step = decide_climb(observed(SERVES_B, ended, serving=ended, types=(A,)), POOL, not_read)
    assert isinstance(step, DeleteConfigurations)
    assert step.names == (SERVES_B.name,)

    step = decide_climb(observed(ended, types=(A,)), POOL, not_read)
    assert isinstance(step, Done)
    assert step.attempts == "ml.g6e.xlarge: in service after 6 m 0 s"


def test_a_climb_that_nobody_followed_to_its_end_is_tidied_up_by_the_next() -> None:
    abandoned = configuration(0, (A,), "climb-0", started_at=NOW - timedelta(hours=1))

    step = decide(observed(SERVES_B, abandoned, serving=abandoned, types=(A,)))
    assert step == Record(abandoned.name, Outcome.IN_SERVICE, "")

    ended = replace(abandoned, attempt=replace(abandoned.attempt, outcome=Outcome.IN_SERVICE))
    step = decide(observed(SERVES_B, ended, serving=ended, types=(A,)))
    assert isinstance(step, DeleteConfigurations)
    assert step.names == (SERVES_B.name,)
    busy = replace(READY, stack_status="UPDATE_IN_PROGRESS")
    assert isinstance(decide(observed(SERVES_B, ended, serving=ended, types=(A,)), busy), Done)


@pytest.mark.parametrize("status", [EndpointStatus.UPDATE_ROLLBACK_FAILED, EndpointStatus.FAILED])
def test_an_endpoint_that_broke_is_reported(status: EndpointStatus) -> None:
    mine = configuration(0, (A,), started_at=NOW - timedelta(minutes=6))

    step = decide_climb(observed(SERVES_B, mine, status=status), POOL, not_read)

    assert isinstance(step, Record)
    assert step.outcome is Outcome.FAILED
    assert status.value in step.reason


@given(
    index=st.integers(0, 2),
    serving=st.sets(st.sampled_from([A, B, C, D]), max_size=3),
    quotas=st.fixed_dictionaries({t: st.integers(0, 2) for t in (A, B, C, D)}),
)
def test_only_preferred_types_with_quota_are_ever_started(
    index: int, serving: set[str], quotas: dict[str, int]
) -> None:
    here = configuration(index, request="deployment", outcome=Outcome.IN_SERVICE)
    limits = {t: Limit(f"{t} for endpoint usage", "L-1", quota, 0) for t, quota in quotas.items()}
    order = [t for one in POOL.rounds for t in one.types]
    types = tuple(t for t in POOL.rounds[index].types if t in serving)

    step = decide(observed(here, types=types, survey=Survey(read=True, limits=limits)))

    if isinstance(step, Start):
        worst = max((order.index(t) for t in types), default=len(order))
        assert all(order.index(t) < worst and quotas[t] for t in step.types)
    elif isinstance(step, Done):
        assert (index, types) == (0, (A,))
    else:
        assert isinstance(step, Fail)
        assert step.code == "no_quota"
