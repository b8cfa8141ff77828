"""Whole operations against the AWS in memory."""

import json
from types import ModuleType
from typing import Any

import pytest

from build_run import handler
from build_run.failures import BuildRunError


def test_content_that_is_there_starts_nothing(aws: Any, resource: Any, events: ModuleType) -> None:
    aws.images[events.image_properties()["ImageTag"]] = "sha256:abc"
    resource.begin()
    assert resource.poll() == {
        "IsComplete": True,
        "Data": {
            "ImageUri": f"{events.image_properties()['RepositoryUri']}@sha256:abc",
            "ImageDigest": "sha256:abc",
            "BuildId": "",
        },
    }
    assert aws.builds == []


def test_builds_and_answers_the_digest(
    aws: Any, resource: Any, events: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    request_id = resource.begin()
    data = resource.until_complete()
    assert data["ImageUri"].endswith(f"@sha256:{events.HASH}")
    (build,) = aws.builds
    assert data["BuildId"] == build["id"]
    assert build["asked"][2] == {
        "sourceTypeOverride": "S3",
        "sourceLocationOverride": "cdk-assets-123456789012-us-east-1/0123.zip",
    }
    assert build["variables"] == {
        "SEMIF_IMAGE_TAG": f"cpu-{events.HASH[:16]}",
        "SEMIF_SCAN_SEVERITY": "CRITICAL",
        "SEMIF_CONTENT_HASH": events.HASH,
        "SEMIF_REQUEST_ID": request_id,
        "SEMIF_STACK_ID": events.STACK_ID,
    }
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["step"] for line in lines] == ["Start", *["Wait"] * 7, "Done"]
    assert all(line["project"] == "semif-dev-image-cpu" and line["reason"] for line in lines)


def test_archive_answers_prefix_file_and_checksum(resource: Any, events: ModuleType) -> None:
    resource.begin(properties=events.archive_properties())
    data = resource.until_complete()
    assert data == {
        "ModelUri": f"s3://models/models/{events.HASH}/",
        "Sha256": "d" * 64,
        "File": "m.gguf",
        "BuildId": data["BuildId"],
    }
    resource.begin(properties=events.archive_properties(sha256=""))
    assert resource.until_complete() == data | {"BuildId": ""}


def test_archive_of_another_checksum_is_refused(aws: Any, resource: Any, events: ModuleType) -> None:
    resource.begin(properties=events.archive_properties(sha256="e" * 64))
    with pytest.raises(BuildRunError, match=r"^archive_differs: .*d{64}, not e{64}\. Next: "):
        resource.until_complete()
    aws.objects = dict.fromkeys(aws.objects, b'{"files": []}')
    with pytest.raises(BuildRunError, match=r"^archive_unreadable: s3://models/"):
        resource.poll()


def test_a_failure_says_all_in_a_thousand_characters(aws: Any, resource: Any, fake_aws: ModuleType) -> None:
    aws.plans["a" * 64] = fake_aws.Plan("FAILED", work_s=20)
    aws.log_lines = [
        *(f"step {i}" for i in range(50)),
        "error: self_test: struct layouts differ: bindings 0.3.36, library 0.3.35; correct the pin",
        "[Container] 2026/01/01 00:00:20 Command did not exit successfully python3 -m image_build",
        "[Container] 2026/01/01 00:00:20 Phase complete: BUILD State: FAILED",
    ]
    resource.begin()
    with pytest.raises(BuildRunError) as caught:
        resource.until_complete()
    text = str(caught.value)
    assert text.startswith(
        "build_failed: semif-dev-image-cpu:0000 ended FAILED in BUILD. COMMAND_EXECUTION_ERROR: Error while"
        " executing command: python3 -m image_build. Reason: exit status 1 Last lines: "
    )
    assert "| step 49 | error: self_test: struct layouts differ: bindings 0.3.36, library 0.3.35" in text
    assert "Command did not exit" not in text
    assert text.endswith(f"Next: Mend what the log names, deploy again. Log: {fake_aws.LINK}")
    assert 500 < len(text) <= 1000


def test_the_next_deployment_retries_an_older_failure(aws: Any, resource: Any, fake_aws: ModuleType) -> None:
    for end in ("FAILED", "FAULT", "TIMED_OUT", "STOPPED"):
        aws.plans["a" * 64] = fake_aws.Plan(end, work_s=20)
        resource.begin()
        with pytest.raises(BuildRunError, match=rf"^build_\w+: .*{end}"):
            resource.until_complete()
        aws.advance(30)
    aws.plans.clear()
    request_id = resource.begin()
    assert resource.until_complete()["BuildId"] == aws.started_by(request_id)[0]["id"]
    assert len(aws.builds) == 5


def test_joins_a_build_that_another_stack_started(aws: Any, resource: Any, neighbour: Any) -> None:
    neighbour.begin()
    neighbour.poll()
    aws.advance(10)
    resource.begin()
    assert resource.until_complete()["BuildId"] == aws.builds[0]["id"]
    assert len(aws.builds) == 1


def test_joins_a_build_that_a_person_started(aws: Any, resource: Any, events: ModuleType) -> None:
    variables = {"SEMIF_CONTENT_HASH": events.HASH, "SEMIF_IMAGE_TAG": f"cpu-{events.HASH[:16]}"}
    aws.start_build(
        projectName="semif-dev-image-cpu",
        environmentVariablesOverride=[{"name": n, "value": v} for n, v in variables.items()],
    )
    resource.begin()
    assert resource.until_complete()["BuildId"] == aws.builds[0]["id"]


def test_a_joined_build_that_fails_fails_both(
    aws: Any, resource: Any, neighbour: Any, fake_aws: ModuleType
) -> None:
    aws.plans["a" * 64] = fake_aws.Plan("FAILED", work_s=60)
    for each in (neighbour, resource):
        each.begin()
        each.poll()
    aws.advance(60)
    for each in (neighbour, resource):
        with pytest.raises(BuildRunError, match=r"^build_failed: semif-dev-image-cpu:0000 "):
            each.poll()
    assert len(aws.builds) == 1


def test_a_joined_build_that_its_stack_stops_is_made_anew(aws: Any, resource: Any, neighbour: Any) -> None:
    neighbour.begin()
    neighbour.poll()
    request_id = resource.begin()
    resource.poll()
    neighbour.begin("Delete")
    neighbour.until_complete()
    resource.event["RequestType"] = "Create"
    aws.resource_status = "CREATE_IN_PROGRESS"
    assert resource.until_complete()["BuildId"] == aws.started_by(request_id)[0]["id"]


def test_two_stacks_at_the_same_moment_keep_the_older_build(aws: Any, resource: Any, neighbour: Any) -> None:
    aws.listing_lag_s = 20
    resource.begin()
    neighbour.begin()
    resource.poll()
    aws.advance(1)
    neighbour.poll()
    assert [build["status"] for build in aws.builds] == ["IN_PROGRESS", "IN_PROGRESS"]
    for _ in range(2):
        aws.advance(15)
        assert resource.poll() == neighbour.poll() == {"IsComplete": False}
    assert [build["status"] for build in aws.builds] == ["IN_PROGRESS", "STOPPED"]
    first, second = resource.until_complete(), neighbour.until_complete()
    assert first == second
    assert first["BuildId"] == aws.builds[0]["id"]


@pytest.mark.parametrize("restart", [False, True])
def test_a_build_that_is_not_listed_yet_is_not_started_again(
    aws: Any, resource: Any, *, restart: bool
) -> None:
    aws.listing_lag_s = 270
    request_id = resource.begin()
    while not resource.poll()["IsComplete"]:
        aws.advance(15)
        if restart:
            resource.restart()
    assert len(aws.started_by(request_id)) == 1


def test_a_process_remembers_what_no_token_covers(aws: Any, resource: Any, fake_aws: ModuleType) -> None:
    aws.listing_lag_s = 1200
    aws.plans["a" * 64] = fake_aws.Plan(work_s=900)
    resource.begin()
    resource.until_complete()
    assert len(aws.builds) == 1


@pytest.mark.parametrize("interruption", ["throttle", "lost"])
def test_a_failing_call_decides_nothing(aws: Any, resource: Any, interruption: str) -> None:
    request_id = resource.begin()
    for calls_before in range(5):
        aws.interruptions[:] = [""] * calls_before + [interruption]
        assert resource.poll() == {"IsComplete": False}
    aws.interruptions.clear()
    resource.until_complete()
    assert len(aws.started_by(request_id)) == 1


def test_waits_for_the_accounts_limit(aws: Any, resource: Any) -> None:
    aws.running_limit = 0
    resource.begin()
    for _ in range(20):
        assert resource.poll() == {"IsComplete": False}
        aws.advance(15)
    aws.running_limit = 1
    assert resource.until_complete()["BuildId"]


def test_no_start_within_the_time_says_so(aws: Any, resource: Any) -> None:
    aws.running_limit = 0
    resource.begin()
    with pytest.raises(BuildRunError, match=r"^wait_timed_out: No build could be started within 32 min"):
        resource.until_complete()


def test_no_start_after_a_joined_build_was_stopped_says_so(
    aws: Any, resource: Any, neighbour: Any, fake_aws: ModuleType
) -> None:
    aws.plans["a" * 64] = fake_aws.Plan(work_s=3000)
    neighbour.begin()
    neighbour.poll()
    resource.begin()
    resource.poll()
    aws.stop_build(id=aws.builds[0]["id"])
    aws.running_limit = 0
    with pytest.raises(BuildRunError, match=r"^wait_timed_out: No build could be started within 32 min"):
        resource.until_complete()


def test_an_expired_time_tells_the_queue_and_stops_the_build(
    aws: Any, resource: Any, neighbour: Any, events: ModuleType, fake_aws: ModuleType
) -> None:
    aws.plans["b" * 64] = fake_aws.Plan(work_s=36000)
    aws.plans["a" * 64] = fake_aws.Plan(queue_s=36000)
    neighbour.begin(properties=events.image_properties("b" * 64))
    neighbour.poll()
    resource.begin()
    with pytest.raises(BuildRunError) as caught:
        resource.until_complete()
    assert str(caught.value).startswith(
        "wait_timed_out: semif-dev-image-cpu:0001 is still in QUEUED behind 1 builds of its project,"
        " 1920 s after its start after 32 min and is stopped."
    )
    assert [build["status"] for build in aws.builds] == ["IN_PROGRESS", "STOPPED"]


def test_success_without_content_is_a_bug_of_the_build(aws: Any, resource: Any, fake_aws: ModuleType) -> None:
    aws.plans["a" * 64] = fake_aws.Plan(makes_content=False)
    resource.begin()
    with pytest.raises(BuildRunError, match=r"^build_without_result: .* a bug in the build program"):
        resource.until_complete()
    assert len(aws.builds) == 1


def test_an_update_stops_the_build_of_the_content_before(
    aws: Any, resource: Any, events: ModuleType, fake_aws: ModuleType
) -> None:
    aws.plans["a" * 64] = fake_aws.Plan(work_s=3000, stop_s=40)
    resource.begin()
    resource.poll()
    aws.advance(60)
    request_id = resource.begin("Update", events.image_properties(events.OTHER_HASH))
    data = resource.until_complete()
    assert data["ImageDigest"] == f"sha256:{events.OTHER_HASH}"
    assert aws.builds[0]["status"] == "STOPPED"
    assert aws.started_by(request_id)[0]["started"] >= aws.builds[0]["ended"]


def test_a_rollback_to_what_is_there_ends_at_once(
    aws: Any, resource: Any, events: ModuleType, fake_aws: ModuleType
) -> None:
    resource.begin()
    before = resource.until_complete()
    aws.plans[events.OTHER_HASH] = fake_aws.Plan("FAILED")
    resource.begin("Update", events.image_properties(events.OTHER_HASH))
    with pytest.raises(BuildRunError, match=r"^build_failed"):
        resource.until_complete()
    resource.begin("Update")
    assert resource.poll() == {"IsComplete": True, "Data": before | {"BuildId": ""}}


def test_a_cancelled_request_starts_nothing_after_its_deletion(aws: Any, resource: Any) -> None:
    aws.running_limit = 0
    resource.begin()
    resource.poll()
    created = resource.event
    resource.begin("Delete")
    assert resource.until_complete() == {}
    aws.running_limit = 1
    assert handler_poll(resource, created) == {"IsComplete": False}
    aws.advance(60)
    with pytest.raises(BuildRunError, match=r"^cancelled: "):
        handler_poll(resource, created)
    assert aws.builds == []


def test_a_stack_that_shows_the_resource_as_it_was_is_asked_again(aws: Any, resource: Any) -> None:
    resource.begin("Update")
    aws.resource_status = "CREATE_COMPLETE"
    assert resource.poll() == {"IsComplete": False}
    assert aws.builds == []
    aws.resource_status = "UPDATE_IN_PROGRESS"
    assert resource.until_complete()["BuildId"]


def test_a_cancelled_update_leaves_the_rollbacks_build_alone(
    aws: Any, resource: Any, events: ModuleType
) -> None:
    aws.running_limit = 0
    resource.begin("Update", events.image_properties(events.OTHER_HASH))
    resource.poll()
    cancelled = resource.event
    aws.running_limit = 1
    aws.advance(20)
    resource.begin("Update")
    resource.poll()
    handler_poll(resource, cancelled)
    assert [build["status"] for build in aws.builds] == ["IN_PROGRESS"]
    assert aws.builds[0]["variables"]["SEMIF_CONTENT_HASH"] == events.HASH


@pytest.mark.parametrize(
    ("operation", "code", "text"),
    [
        ("list_builds_for_project", "ResourceNotFoundException", "not_found: list_builds_for_project"),
        ("describe_images", "RepositoryNotFoundException", "not_found: describe_images"),
        ("start_build", "InvalidInputException", "unclassified_failure: start_build"),
        ("start_build", "AccessDeniedException", "access_denied: start_build"),
    ],
)
def test_a_permanent_refusal_fails_with_its_text(
    aws: Any, resource: Any, operation: str, code: str, text: str
) -> None:
    aws.refusals[operation] = (code, "the words of AWS", 400)
    resource.begin()
    with pytest.raises(BuildRunError, match=rf"^{text}: {code}: the words of AWS Next: "):
        resource.until_complete()


def test_a_log_that_cannot_be_read_keeps_no_failure_back(
    aws: Any, resource: Any, fake_aws: ModuleType
) -> None:
    aws.plans["a" * 64] = fake_aws.Plan("FAILED")
    aws.refusals["get_log_events"] = ("ThrottlingException", "Rate exceeded", 400)
    resource.begin()
    with pytest.raises(BuildRunError, match=r"\(the log cannot be read: ThrottlingException\)"):
        resource.until_complete()


def test_many_older_builds_are_read_page_by_page(aws: Any, resource: Any, fake_aws: ModuleType) -> None:
    aws.plans["a" * 64] = fake_aws.Plan(work_s=3000)
    resource.begin()
    resource.poll()
    for _ in range(7):
        aws.start_build(
            projectName="semif-dev-image-cpu",
            environmentVariablesOverride=[{"name": "SEMIF_CONTENT_HASH", "value": "e" * 64}],
        )
    resource.restart()
    aws.calls.clear()
    assert resource.poll() == {"IsComplete": False}
    assert aws.calls.count("list_builds_for_project") == 3
    assert "start_build" not in aws.calls


@pytest.mark.parametrize("code", ["AccessDenied", "ValidationError"])
def test_a_stack_that_cannot_be_read_is_no_obstacle(aws: Any, resource: Any, code: str) -> None:
    aws.refusals["describe_stack_resource"] = (code, "the words of AWS", 400)
    resource.begin()
    assert resource.until_complete()["BuildId"]


def handler_poll(resource: Any, event: dict[str, Any]) -> dict[str, object]:
    """A poll of an earlier request, which the Provider goes on with."""
    current, resource.event = resource.event, event
    try:
        answer: dict[str, object] = resource.poll()
        return answer
    finally:
        resource.event = current


def test_on_event_names_the_resource_and_keeps_its_beginning(events: ModuleType) -> None:
    event = {"RequestType": "Create", "ResourceProperties": events.image_properties()}
    answer = handler.on_event(event, None)
    assert answer["PhysicalResourceId"] == "semif-dev-image-cpu-build-run"
    assert isinstance(answer["Data"], dict)
    assert answer["Data"]["StartedAt"].endswith("+00:00")
    gone = handler.on_event({"RequestType": "Delete", "PhysicalResourceId": "x-build-run"}, None)
    assert gone["PhysicalResourceId"] == "x-build-run"
