"""A deleted resource: what its stack started stops, and what was built stays."""

from types import ModuleType
from typing import Any

import pytest

from build_run.failures import BuildRunError


def test_a_deletion_stops_this_stacks_builds_and_waits(
    aws: Any, resource: Any, neighbour: Any, events: ModuleType, fake_aws: ModuleType
) -> None:
    aws.plans["a" * 64] = fake_aws.Plan(work_s=3000, stop_s=40)
    neighbour.begin(properties=events.image_properties("b" * 64))
    neighbour.poll()
    resource.begin()
    resource.poll()
    resource.begin("Delete")
    assert resource.poll() == {"IsComplete": False}
    assert resource.until_complete() == {}
    assert [build["status"] for build in aws.builds] == ["IN_PROGRESS", "STOPPED"]


def test_a_deletion_keeps_the_content_and_repeats(aws: Any, resource: Any, events: ModuleType) -> None:
    resource.begin()
    resource.until_complete()
    for _ in range(2):
        resource.begin("Delete", {"anything": "goes"})
        assert resource.until_complete() == {}
    assert list(aws.images) == [f"cpu-{events.HASH[:16]}"]


def test_a_deletion_sees_a_build_that_is_not_listed_at_once(aws: Any, resource: Any) -> None:
    aws.listing_lag_s = 4
    resource.begin()
    resource.poll()
    resource.restart()
    resource.begin("Delete")
    assert resource.until_complete() == {}
    assert [build["status"] for build in aws.builds] == ["STOPPED"]


def test_a_deletion_never_fails_for_what_is_gone(aws: Any, resource: Any) -> None:
    aws.projects.clear()
    resource.begin("Delete")
    assert resource.poll() == {"IsComplete": True, "Data": {}}
    aws.refusals["list_builds_for_project"] = ("AccessDeniedException", "not authorized", 400)
    assert resource.poll() == {"IsComplete": False}
    assert resource.until_complete() == {}


def test_a_build_that_will_not_stop_fails_the_deletion_with_its_phase(
    aws: Any, resource: Any, fake_aws: ModuleType
) -> None:
    aws.plans["a" * 64] = fake_aws.Plan(work_s=36000, stop_s=36000)
    resource.begin()
    resource.poll()
    resource.begin("Delete")
    with pytest.raises(BuildRunError, match=r"^stop_timed_out: semif-dev-image-cpu:0000 is still in BUILD"):
        resource.until_complete()
