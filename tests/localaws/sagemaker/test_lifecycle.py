"""Decisions about endpoints, without time."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localaws.sagemaker import lifecycle, messages
from localaws.sagemaker.faults import CAPACITY_MODES, Fault, FaultMode
from localaws.sagemaker.lifecycle import EndpointState, Status
from localaws.sagemaker.models import PoolEntry, ServingVariant, Variant
from localaws.sagemaker.quotas import QuotaExceededError

T0 = datetime(2026, 1, 1, tzinfo=UTC)
T1 = T0 + timedelta(seconds=1)
ARN = "arn:aws:sagemaker:eu-central-1:123456789012:endpoint/e"
CONFIG_ARN = "arn:aws:sagemaker:eu-central-1:123456789012:endpoint-config/c"
SERVING = (ServingVariant("AllTraffic", "ml.c6i.xlarge", False, 2, 3.0, "image", "image@sha256:0", T0),)


def variant(*types: str, count: int = 1, weight: float = 1.0, name: str = "AllTraffic") -> Variant:
    pool = tuple(PoolEntry(entry, "m") for entry in types)
    return Variant(name, pool, len(types) > 1, count, weight, 60, 60)


def in_service(config: str = "old") -> EndpointState:
    return lifecycle.healthy(lifecycle.created("e", ARN, config, T0), SERVING, T0)


def test_an_endpoint_without_faults_is_placed_after_the_usual_time() -> None:
    plan = lifecycle.plan([variant("ml.c6i.xlarge")], {}, 2.0)
    assert (plan.seconds, plan.failure) == (2.0, None)
    assert [placed.entry.instance_type for placed in plan.placements] == ["ml.c6i.xlarge"]


def test_missing_capacity_of_a_single_type_fails_after_its_own_time() -> None:
    faults = {"ml.g6e.xlarge": Fault(FaultMode.CAPACITY, 30.0)}
    plan = lifecycle.plan([variant("ml.g6e.xlarge")], faults, 2.0)
    assert (plan.seconds, plan.failure, plan.placements) == (30.0, messages.NO_CAPACITY, ())


def test_a_native_pool_falls_back_on_missing_capacity_and_adds_up_the_times() -> None:
    faults = {"a": Fault(FaultMode.CAPACITY, 30.0), "b": Fault(FaultMode.CAPACITY)}
    plan = lifecycle.plan([variant("a", "b", "c")], faults, 2.0)
    assert (plan.seconds, plan.placements[0].entry.instance_type) == (34.0, "c")


@pytest.mark.parametrize(
    ("mode", "text"),
    [
        (FaultMode.HEALTH, "did not pass the ping health check"),
        (FaultMode.START, "CannotStartContainerError"),
        (FaultMode.DOWNLOAD, "Failed to download model data"),
        (FaultMode.IMAGE, "Please make sure all images included in the model"),
        (FaultMode.IMAGE_ACCESS, "The role 'role' does not have BatchGetImage permission"),
        (FaultMode.SERVICE_FAILED, "Request to service failed"),
    ],
)
def test_a_native_pool_does_not_fall_back_on_anything_else(mode: FaultMode, text: str) -> None:
    plan = lifecycle.plan([variant("a", "b")], {"a": Fault(mode)}, 1.0)
    assert plan.placements[0].entry.instance_type == "a"
    reason = lifecycle.injected_failure(plan.placements[0], "m", "role", "s3://b/k")
    assert reason is not None
    assert text in reason


@pytest.mark.parametrize("mode", [None, FaultMode.SLOW, FaultMode.SILENT_ROLLBACK])
def test_other_placements_start_for_real(mode: FaultMode | None) -> None:
    faults = {"a": Fault(mode, 9.0)} if mode else {}
    plan = lifecycle.plan([variant("a")], faults, 1.0)
    assert lifecycle.injected_failure(plan.placements[0], "m", "role", "") is None
    assert plan.seconds == (9.0 if mode else 1.0)
    assert plan.silent_rollback is (mode is FaultMode.SILENT_ROLLBACK)


def test_a_fleet_is_mixed_where_a_preferred_type_has_too_few() -> None:
    faults = {"a": Fault(FaultMode.CAPACITY, available=1), "b": Fault(FaultMode.CAPACITY_ERROR)}
    plan = lifecycle.plan([variant("a", "b", "c", count=3)], faults, 1.0)
    assert plan.placements[0].entry.instance_type == "a"
    assert plan.instances == (("a", 1), ("b", 0), ("c", 2))
    assert lifecycle.plan([variant("a", "b", count=3)], faults, 1.0).failure == messages.NO_CAPACITY_BEFORE


def test_a_pool_gives_up_when_its_provision_timeout_is_over() -> None:
    limited = replace(variant("a", "b"), provision_timeout_s=300)
    faults = {"a": Fault(FaultMode.CAPACITY, 299.0)}
    assert lifecycle.plan([limited], faults, 1.0).failure is None
    late = lifecycle.plan([limited], faults, 2.0)
    assert (late.seconds, late.failure) == (300.0, messages.NO_CAPACITY)


def test_counts_grow_by_the_first_type_and_shrink_from_the_last() -> None:
    fleet = (("a", 1), ("b", 0), ("c", 2))
    state = replace(in_service(), serving=(replace(SERVING[0], instance_count=3, fleet=fleet),))

    def resized(count: int) -> tuple[tuple[str, int], ...]:
        asked = lifecycle.scaling(state, {"AllTraffic": {"DesiredInstanceCount": count}}, T1)
        assert (asked.status, asked.serving[0].instance_count) == (Status.UPDATING, 3)
        ended = lifecycle.scaled(asked, T1)
        assert (ended.status, ended.serving[0].instance_count) == (Status.IN_SERVICE, count)
        return ended.serving[0].fleet

    assert resized(5) == (("a", 3), ("b", 0), ("c", 2))
    assert resized(2) == (("a", 1), ("b", 0), ("c", 1))
    assert resized(0) == (("a", 0), ("b", 0), ("c", 0))


def test_variants_are_provisioned_at_the_same_time() -> None:
    variants = [variant("a", name="one"), variant("b", name="two")]
    plan = lifecycle.plan(variants, {"b": Fault(FaultMode.SLOW, 9.0)}, 1.0)
    assert plan.seconds == 9.0
    assert len(plan.placements) == 2


def test_every_listed_type_needs_quota() -> None:
    faults = {"b": Fault(FaultMode.QUOTA)}
    lifecycle.check_quota([variant("a")], faults)
    with pytest.raises(QuotaExceededError, match=r"'b for endpoint usage' is 0 Instances.*delta of 3 "):
        lifecycle.check_quota([variant("a", "b", count=3)], faults)


def test_a_creation_names_its_configuration_and_ends_in_service() -> None:
    state = lifecycle.created("e", ARN, "c", T0)
    assert (state.status, state.config_name, state.serving_config) == (Status.CREATING, "c", None)
    state = lifecycle.healthy(state, SERVING, T1)
    assert (state.status, state.config_name, state.serving) == (Status.IN_SERVICE, "c", SERVING)
    assert (state.created_at, state.modified_at) == (T0, T1)


def test_a_failed_creation_allows_deletion_only() -> None:
    state = lifecycle.failed(lifecycle.created("e", ARN, "c", T0), "x" * 2000, T1)
    assert (state.status, len(state.failure_reason or "")) == (Status.FAILED, 1024)
    with pytest.raises(lifecycle.RefusedError, match="in status Failed"):
        lifecycle.updating(state, "d", CONFIG_ARN, T1)
    assert lifecycle.deleting(state, T1).status is Status.DELETING


def test_an_update_serves_the_old_configuration_until_the_new_one_is_healthy() -> None:
    state = lifecycle.updating(in_service(), "new", CONFIG_ARN, T1)
    assert (state.status, state.config_name, state.target_config) == (Status.UPDATING, "old", "new")
    assert lifecycle.healthy(state, SERVING, T1).config_name == "new"


@pytest.mark.parametrize("reason", [messages.NO_CAPACITY, None])
def test_a_failed_update_is_back_in_service_on_the_old_configuration(reason: str | None) -> None:
    state = lifecycle.failed(lifecycle.updating(in_service(), "new", CONFIG_ARN, T1), reason, T1)
    assert (state.status, state.config_name, state.target_config) == (Status.IN_SERVICE, "old", "old")
    assert state.failure_reason == reason


def test_the_next_update_forgets_the_old_reason() -> None:
    state = lifecycle.failed(lifecycle.updating(in_service(), "new", CONFIG_ARN, T1), "bad", T1)
    assert lifecycle.updating(state, "new", CONFIG_ARN, T1).failure_reason is None


def test_the_configuration_in_use_is_refused() -> None:
    with pytest.raises(lifecycle.RefusedError, match="currently in use endpoint configuration"):
        lifecycle.updating(in_service("c"), "c", CONFIG_ARN, T1)


@pytest.mark.parametrize("status", sorted(lifecycle.IN_TRANSITION))
def test_transitions_refuse_update_and_delete(status: Status) -> None:
    state = EndpointState("e", ARN, status, T0, T0, "c")
    with pytest.raises(lifecycle.RefusedError, match=f'Cannot update in-progress endpoint "{ARN}"'):
        lifecycle.updating(state, "d", CONFIG_ARN, T1)
    with pytest.raises(lifecycle.RefusedError, match="Cannot update in-progress endpoint"):
        lifecycle.deleting(state, T1)


def test_retained_properties() -> None:
    new = [variant("a", count=9, weight=9.0), variant("a", count=9, weight=9.0, name="Other")]

    def retain(**request: object) -> list[tuple[int, float]]:
        return [(v.instance_count, v.weight) for v in lifecycle.retained(new, SERVING, request)]

    assert retain() == [(9, 9.0), (9, 9.0)]
    assert retain(RetainAllVariantProperties=True) == [(2, 3.0), (9, 9.0)]
    excluded = [{"VariantPropertyType": "DesiredInstanceCount"}]
    assert retain(RetainAllVariantProperties=True, ExcludeRetainedVariantProperties=excluded) == [
        (9, 3.0),
        (9, 9.0),
    ]


@given(
    st.lists(st.sampled_from(["a", "b", "c", "d"]), min_size=1, max_size=5, unique=True),
    st.dictionaries(
        st.sampled_from(["a", "b", "c", "d"]),
        st.builds(Fault, st.sampled_from(FaultMode), st.none() | st.floats(0, 100)),
    ),
)
def test_a_plan_places_the_first_type_with_capacity(types: list[str], faults: dict[str, Fault]) -> None:
    plan = lifecycle.plan([variant(*types)], faults, 1.0)
    short = [t for t in types if t in faults and faults[t].mode in CAPACITY_MODES]
    if len(short) == len(types):
        assert plan.failure in {messages.NO_CAPACITY, messages.NO_CAPACITY_BEFORE}
    else:
        assert plan.placements[0].entry.instance_type == next(t for t in types if t not in short)
