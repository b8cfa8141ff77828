"""The walk's decisions as tables: what is known, and the one next step."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Literal

import pytest

from instance_pool.attempts import Attempt, Outcome
from instance_pool.observation import (
    Configuration,
    Endpoint,
    EndpointStatus,
    Observation,
    Ownership,
    Survey,
)
from instance_pool.pool import Pool, Round
from instance_pool.steps import (
    DeleteConfigurations,
    DeleteEndpoint,
    Done,
    Fail,
    Gone,
    Record,
    Start,
    Step,
    Wait,
)
from instance_pool.walk import decide, decide_deletion

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
TYPES = ("ml.g6e.xlarge", "ml.g6.2xlarge", "ml.c6i.2xlarge")
CAPACITY = "Unable to provision requested ML compute capacity due to InsufficientInstanceCapacity error."
HEALTH = "The primary container for production variant AllTraffic did not pass the ping health check."
S = EndpointStatus
BUSY = [S.CREATING, S.UPDATING, S.SYSTEM_UPDATING, S.ROLLING_BACK, S.DELETING, S.UNKNOWN]


POOL = Pool(
    endpoint_name="semif-dev-decisions",
    variant_name="AllTraffic",
    rounds=tuple(Round((name,), "Model-new", 1) for name in TYPES),
    native=False,
    provision_timeout_s=None,
    download_timeout_s=900,
    startup_timeout_s=600,
)
OLD_POOL = replace(POOL, rounds=(Round(TYPES[:1], "Model-old", 1),))
FIRST, SECOND, THIRD = (POOL.round_name(index) for index in range(3))


def tried(
    index: int,
    outcome: Outcome | None = None,
    reason: str = "",
    *,
    started_s_ago: float | None = 600,
    made_s_ago: float = 601,
    request_id: str = "now",
    pool: Pool = POOL,
) -> Configuration:
    started_at = None if started_s_ago is None else NOW - timedelta(seconds=started_s_ago)
    ended_at = None if outcome is None else NOW - timedelta(seconds=48)
    name = pool.round_name(index)
    attempt = Attempt(request_id, pool.rounds[index].types, outcome, reason, started_at, ended_at)
    return Configuration(name, f"arn:{name}", NOW - timedelta(seconds=made_s_ago), attempt)


def serving(
    status: EndpointStatus,
    *,
    pool: Pool = POOL,
    index: int = 0,
    reason: str = "",
    ownership: Ownership = Ownership.OURS,
    made_s_ago: float = 600,
) -> Endpoint:
    created_at = NOW - timedelta(seconds=made_s_ago)
    name = pool.round_name(index)
    return Endpoint("arn:e", status, name, reason, created_at, ownership=ownership)


def observed(endpoint: Endpoint | None, *configurations: Configuration) -> Observation:
    return Observation(NOW, "now", endpoint, configurations, survey=Survey(read=True))


def start(index: int, how: Literal["create", "update"], reason: str) -> Start:
    return Start(POOL.round_name(index), index, POOL.rounds[index].types, how, reason)


OLD = tried(0, Outcome.IN_SERVICE, request_id="before", pool=OLD_POOL)
GONE_TYPES = (tried(0, Outcome.CAPACITY), tried(1, Outcome.QUOTA, started_s_ago=None))
SERVES_FIRST = "the endpoint serves the wanted pool on ml.g6e.xlarge"
GONE_TEXT = "ml.g6e.xlarge: no capacity after 9 m 12 s; ml.g6.2xlarge: no quota"

CREATE: list[tuple[str, Observation, Step]] = [
    ("nothing is there", observed(None), start(0, "create", "first of the pool")),
    (
        "made, not begun",
        observed(None, tried(0, started_s_ago=None)),
        start(0, "create", "first of the pool"),
    ),
    (
        "first without capacity",
        observed(None, tried(0, Outcome.CAPACITY)),
        start(1, "create", "ml.g6e.xlarge ended with capacity; next of the pool"),
    ),
    (
        "second without quota",
        observed(None, *GONE_TYPES),
        start(2, "create", "ml.g6.2xlarge ended with quota; next of the pool"),
    ),
    (
        "failed for capacity, not yet noted",
        observed(serving(S.FAILED, reason=CAPACITY), tried(0)),
        Record(FIRST, Outcome.CAPACITY, CAPACITY),
    ),
    (
        "failed for capacity, noted",
        observed(serving(S.FAILED, reason=CAPACITY), tried(0, Outcome.CAPACITY)),
        DeleteEndpoint("ml.g6e.xlarge cannot be had; the name must be free again"),
    ),
    (
        "failed otherwise, not yet noted",
        observed(serving(S.FAILED, reason=HEALTH), tried(0)),
        Record(FIRST, Outcome.FAILED, HEALTH),
    ),
    (
        "failed without a reason",
        observed(serving(S.FAILED), tried(0)),
        Record(FIRST, Outcome.FAILED, "The endpoint failed and SageMaker gave no reason."),
    ),
    (
        "in service, not yet noted",
        observed(serving(S.IN_SERVICE), tried(0)),
        Record(FIRST, Outcome.IN_SERVICE, ""),
    ),
    (
        "in service, noted",
        observed(serving(S.IN_SERVICE, index=2), *GONE_TYPES, tried(2, Outcome.IN_SERVICE)),
        Done(
            2,
            f"{GONE_TEXT}; ml.c6i.2xlarge: in service after 9 m 12 s",
            "the endpoint serves the wanted pool on ml.c6i.2xlarge",
        ),
    ),
    (
        "left Failed by an earlier operation",
        observed(serving(S.FAILED, pool=OLD_POOL, reason=HEALTH), OLD),
        DeleteEndpoint("an earlier operation left the endpoint Failed, and Failed allows nothing but that"),
    ),
    (
        "same content left by an earlier operation",
        observed(None, tried(0, Outcome.CAPACITY, request_id="before")),
        DeleteConfigurations((FIRST,), "an earlier operation left them; this one begins afresh"),
    ),
    (
        "tags of the endpoint not visible yet",
        observed(serving(S.CREATING, ownership=Ownership.UNTAGGED, made_s_ago=2), tried(0)),
        Wait("the endpoint's tags cannot be seen yet"),
    ),
    (
        "somebody else's endpoint on its way out",
        observed(serving(S.DELETING, ownership=Ownership.FOREIGN)),
        Wait("an endpoint of this name is being deleted"),
    ),
]

UPDATE: list[tuple[str, Observation, Step]] = [
    (
        "the old one serves",
        observed(serving(S.IN_SERVICE, pool=OLD_POOL), OLD),
        start(0, "update", "first of the pool"),
    ),
    (
        "accepted a moment ago, does not show yet",
        observed(serving(S.IN_SERVICE, pool=OLD_POOL), OLD, tried(0, started_s_ago=2)),
        Wait("the update was accepted and does not show yet"),
    ),
    (
        "back on the old one for capacity",
        observed(serving(S.IN_SERVICE, pool=OLD_POOL, reason=CAPACITY), OLD, tried(0)),
        Record(FIRST, Outcome.CAPACITY, CAPACITY),
    ),
    (
        "back on the old one, silently",
        observed(serving(S.IN_SERVICE, pool=OLD_POOL), OLD, tried(0)),
        Record(FIRST, Outcome.FAILED, "The update was rolled back and SageMaker gave no reason."),
    ),
    (
        "capacity noted: next, by update; the reason of before says nothing about it",
        observed(serving(S.IN_SERVICE, pool=OLD_POOL, reason=CAPACITY), OLD, tried(0, Outcome.CAPACITY)),
        start(1, "update", "ml.g6e.xlarge ended with capacity; next of the pool"),
    ),
    (
        "the new one serves: the old configuration goes",
        observed(serving(S.IN_SERVICE), OLD, tried(0, Outcome.IN_SERVICE)),
        DeleteConfigurations((OLD.name,), "the new configuration serves, so the old ones can go"),
    ),
    (
        "nothing changes; a reason of an earlier update is still there",
        observed(serving(S.IN_SERVICE, reason=CAPACITY), tried(0, Outcome.IN_SERVICE, request_id="before")),
        Done(0, "ml.g6e.xlarge: in service after 9 m 12 s", SERVES_FIRST),
    ),
    (
        "its configuration was deleted by hand",
        observed(serving(S.IN_SERVICE)),
        Done(0, "ml.g6e.xlarge: in service", SERVES_FIRST),
    ),
    ("deleted by hand", observed(None, OLD), start(0, "create", "first of the pool")),
]


@pytest.mark.parametrize(
    ("observation", "step"), [(o, s) for _, o, s in CREATE + UPDATE], ids=[n for n, *_ in CREATE + UPDATE]
)
def test_next_step(observation: Observation, step: Step) -> None:
    assert decide(observation, POOL) == step


@pytest.mark.parametrize("status", BUSY)
def test_waits_while_sagemaker_works(status: EndpointStatus) -> None:
    assert isinstance(decide(observed(serving(status), tried(0)), POOL), Wait)


FAILURES: list[tuple[str, Observation, str, str]] = [
    (
        "every type tried, on create",
        observed(None, *GONE_TYPES, tried(2, Outcome.CAPACITY)),
        "pool_exhausted",
        f"{GONE_TEXT}; ml.c6i.2xlarge: no capacity after 9 m 12 s",
    ),
    (
        "every type tried, the last still there Failed",
        observed(serving(S.FAILED, index=2, reason=CAPACITY), *GONE_TYPES, tried(2, Outcome.CAPACITY)),
        "pool_exhausted",
        "ml.c6i.2xlarge: no capacity",
    ),
    (
        "every type tried, on update",
        observed(serving(S.IN_SERVICE, pool=OLD_POOL), OLD, *GONE_TYPES, tried(2, Outcome.QUOTA)),
        "pool_exhausted",
        "ml.c6i.2xlarge: no quota",
    ),
    (
        "failed for its health",
        observed(serving(S.FAILED, reason=HEALTH), tried(0, Outcome.FAILED, HEALTH)),
        "health_check_failed",
        "ml.g6e.xlarge: failed after 9 m 12 s",
    ),
    (
        "rolled back silently",
        observed(
            serving(S.IN_SERVICE, pool=OLD_POOL),
            OLD,
            tried(0, Outcome.FAILED, "The update was rolled back and SageMaker gave no reason."),
        ),
        "update_rolled_back",
        "ml.g6e.xlarge: failed",
    ),
    (
        "a mix serves",
        observed(serving(S.UPDATE_ROLLBACK_FAILED), tried(0)),
        "endpoint_not_updatable",
        "ml.g6e.xlarge: not ended",
    ),
    ("out of service", observed(serving(S.OUT_OF_SERVICE)), "endpoint_not_updatable", ""),
    (
        "another's endpoint",
        observed(serving(S.IN_SERVICE, ownership=Ownership.FOREIGN)),
        "endpoint_not_ours",
        "",
    ),
    (
        "the tag was taken off",
        observed(serving(S.IN_SERVICE, ownership=Ownership.UNTAGGED), tried(0)),
        "endpoint_not_ours",
        "",
    ),
    (
        "creating for too long",
        observed(serving(S.CREATING), tried(0, started_s_ago=3120, made_s_ago=3121)),
        "walk_timed_out",
        "ml.g6e.xlarge: not ended",
    ),
    (
        "no time for the next type",
        observed(None, tried(0, Outcome.CAPACITY, started_s_ago=3200, made_s_ago=3201)),
        "walk_timed_out",
        "ml.g6e.xlarge: no capacity",
    ),
]


@pytest.mark.parametrize(
    ("observation", "code", "attempts"), [(o, c, a) for _, o, c, a in FAILURES], ids=[n for n, *_ in FAILURES]
)
def test_final_failures(observation: Observation, code: str, attempts: str) -> None:
    step = decide(observation, POOL)
    assert isinstance(step, Fail)
    assert step.code == code
    assert attempts in step.attempts
    assert all((step.reason, step.advice))


def test_quota_alone_asks_for_quota() -> None:
    refused = [tried(i, Outcome.QUOTA) for i in range(3)]
    step = decide(observed(None, *refused), POOL)
    assert isinstance(step, Fail)
    assert "Service Quotas" in step.advice


OURS, UNTAGGED, FOREIGN = Ownership.OURS, Ownership.UNTAGGED, Ownership.FOREIGN
SWEEP = DeleteConfigurations((FIRST,), "nothing uses these configurations of this stack")
DELETE: list[tuple[str, Observation, Step]] = [
    ("never was", observed(None), Gone("no endpoint and no configuration of this stack is left")),
    ("only a configuration", observed(None, tried(0)), SWEEP),
    ("serves", observed(serving(S.IN_SERVICE), tried(0)), DeleteEndpoint("the stack no longer wants it")),
    ("failed", observed(serving(S.FAILED), tried(0)), DeleteEndpoint("the stack no longer wants it")),
    (
        "another's of the same name",
        observed(serving(S.IN_SERVICE, pool=OLD_POOL, ownership=FOREIGN), tried(0)),
        SWEEP,
    ),
    (
        "another's, nothing of ours",
        observed(serving(S.CREATING, ownership=FOREIGN)),
        Gone("the endpoint of this name does not carry this stack's tag and stays"),
    ),
    (
        "another's that runs our configuration",
        observed(serving(S.IN_SERVICE, ownership=FOREIGN), tried(0)),
        Gone("the endpoint of this name does not carry this stack's tag and stays"),
    ),
    (
        "new, tags not visible yet",
        observed(serving(S.FAILED, ownership=UNTAGGED, made_s_ago=3), tried(0)),
        Wait("the endpoint's tags cannot be seen yet"),
    ),
]


@pytest.mark.parametrize(("observation", "step"), [(o, s) for _, o, s in DELETE], ids=[n for n, *_ in DELETE])
def test_next_step_of_a_deletion(observation: Observation, step: Step) -> None:
    assert decide_deletion(observation, POOL.endpoint_name) == step


@pytest.mark.parametrize("ownership", [OURS, UNTAGGED])
@pytest.mark.parametrize("status", BUSY)
def test_deletion_waits_until_it_is_allowed(status: EndpointStatus, ownership: Ownership) -> None:
    step = decide_deletion(observed(serving(status, ownership=ownership), tried(0)), POOL.endpoint_name)
    assert isinstance(step, Wait)


def test_deletion_does_not_take_an_endpoint_whose_tag_was_taken_off() -> None:
    step = decide_deletion(observed(serving(S.IN_SERVICE, ownership=UNTAGGED), tried(0)), POOL.endpoint_name)
    assert isinstance(step, Fail)
    assert step.code == "endpoint_not_ours"
