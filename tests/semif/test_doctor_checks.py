"""Findings from facts: what stops a deployment, in the words that the operator reads."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from semif.doctor_checks import check, worst_case_s
from semif.doctor_facts import EndpointState, Identity, Quota, Session, Source, StackState, Versions
from semif.findings import Level, Unknown, lines, stops, summary
from tests.semif.plans import ACCOUNT, HUB, NOW, REGION, STACK_ID, endpoint, facts, plan, quotas, serving

ASK = "aws service-quotas request-service-quota-increase --service-code sagemaker --quota-code"


def texts(level: Level, planned: Any = None, **changes: Any) -> list[str]:
    found = check(planned or plan(), facts(**changes))
    return [finding.text for finding in found if finding.level is level]


def test_nothing_wrong_is_only_ok() -> None:
    found = check(plan(), facts())
    assert {finding.level for finding in found} == {Level.OK}
    assert not stops(found)
    assert summary(found) == f"{len(found)} ok"
    assert lines(found)[0] == (
        f"ok       identity: account {ACCOUNT}, which cdk.json does not name, {REGION}, as"
        f" arn:aws:iam::{ACCOUNT}:user/me."
    )


def test_a_quota_of_nothing_is_skipped_with_what_to_ask_for() -> None:
    two = plan({"decisions": endpoint(instance_count=2)})
    assert texts(Level.WARNING, two, quotas=quotas(g6e_xlarge=0, g5_2xlarge=4)) == [
        'ml.g6e.xlarge skipped: quota "ml.g6e.xlarge for endpoint usage" is 0.'
        f" Ask for 2: {ASK} L-g6e.xlarge --desired-value 2 --region {REGION}"
    ]


def test_a_type_that_the_region_does_not_list_is_skipped() -> None:
    (text,) = texts(Level.WARNING, quotas=quotas(g5_2xlarge=4))
    assert text.startswith(f"ml.g6e.xlarge skipped: {REGION} offers no ml.g6e.xlarge for endpoints")
    assert texts(Level.ERROR, quotas=quotas(g5_2xlarge=4)) == []


def test_an_endpoint_without_any_type_stops_the_deployment() -> None:
    (text,) = texts(Level.ERROR, quotas=quotas(g6e_xlarge=0))
    assert text == (
        "semif-dev-decisions: no type of its pool has room for 1 instance"
        " (ml.g6e.xlarge: quota 0, 0 left; ml.g5.2xlarge: not offered)."
        f" Ask for 1: {ASK} L-g6e.xlarge --desired-value 1 --region {REGION}"
    )
    (text,) = texts(Level.ERROR, quotas={})
    assert text.endswith("Put a type that the region offers into its pool.")


def test_endpoints_count_together() -> None:
    one = {"instance_count": 2}
    both = plan({"a": endpoint("a", "ml.c6i.2xlarge", **one), "b": endpoint("b", "ml.c6i.2xlarge", **one)})
    assert texts(Level.ERROR, both, quotas=quotas(c6i_2xlarge=4)) == []
    (error,) = texts(Level.ERROR, both, quotas=quotas(c6i_2xlarge=5), in_use={"ml.c6i.2xlarge": 2})
    assert error.startswith("semif-dev-b: no type of its pool has room for 2 instances (ml.c6i.2xlarge:")
    assert "--desired-value 6 " in error
    (warning,) = texts(Level.WARNING, both, quotas=quotas(c6i_2xlarge=5), in_use={"ml.c6i.2xlarge": 2})
    assert "is 5, 2 in use, 4 needed (semif-dev-a 2, semif-dev-b 2): too few for all. Ask for 6" in warning


def test_a_second_endpoint_goes_to_its_next_type_when_the_first_is_taken() -> None:
    both = plan({"a": endpoint("a", "ml.g6e.xlarge"), "b": endpoint("b", "ml.g6e.xlarge", "ml.g5.2xlarge")})
    assert texts(Level.ERROR, both, quotas=quotas(g6e_xlarge=1, g5_2xlarge=1)) == []


def test_the_last_resort_is_counted_with_its_own_instances() -> None:
    resort = {"last_resort": ["ml.c7i.2xlarge"], "last_resort_instance_count": 3, "instance_count": 1}
    one = plan({"decisions": endpoint("decisions", "ml.g6e.xlarge", **resort)})
    assert texts(Level.ERROR, one, quotas=quotas(g6e_xlarge=0, c7i_2xlarge=3)) == []
    (error,) = texts(Level.ERROR, one, quotas=quotas(g6e_xlarge=0, c7i_2xlarge=2))
    assert "ml.c7i.2xlarge: quota 2, 2 left" in error


@pytest.mark.parametrize(
    ("update", "count", "quota", "enough"),
    [
        ("all-at-once", 2, 4, True),
        ("all-at-once", 2, 3, False),
        ("canary", 2, 3, False),
        ("rolling", 4, 6, True),
        ("rolling", 4, 5, False),
        ("recreate", 1, 1, True),
    ],
)
def test_an_update_needs_room_beside_what_serves(update: str, count: int, quota: int, enough: bool) -> None:
    one = plan({"decisions": endpoint("decisions", "ml.g6e.xlarge", update=update, instance_count=count)})
    errors = texts(Level.ERROR, one, quotas=quotas(g6e_xlarge=quota), **serving(g6e_xlarge=count))
    assert bool(errors) is not enough
    if errors:
        assert "beside those that serve during the update" in errors[0]
        assert 'Set "update": "recreate" (with downtime), or ask for ' in errors[0]


def test_a_deployment_that_keeps_the_fleet_needs_no_room() -> None:
    known = serving(g6e_xlarge=1)
    kept = replace(known["stacks"]["semif-dev-decisions"], new_fleet=False)
    one = plan({"decisions": endpoint("decisions", "ml.g6e.xlarge")})
    changes = {**known, "stacks": {"semif-dev-decisions": kept}}
    assert texts(Level.ERROR, one, quotas=quotas(g6e_xlarge=1), **changes) == []


def test_what_cannot_be_looked_up_is_a_warning_of_its_own() -> None:
    denied = Unknown("servicequotas:ListServiceQuotas", "not authorized", denied=True)
    found = texts(Level.WARNING, quotas=denied, build_quotas=denied)
    assert found[0] == (
        "could not check quotas of instances: needs servicequotas:ListServiceQuotas (not authorized;"
        " SageMaker itself will check them). Allow servicequotas:ListServiceQuotas to these credentials."
    )
    assert len(found) == 2
    assert texts(Level.ERROR, quotas=denied, build_quotas=denied) == []


def test_credentials_that_reach_nobody_are_the_only_finding_of_aws() -> None:
    found = check(plan(), facts(identity=Unknown("sts:GetCallerIdentity", "Unable to locate credentials")))
    assert [f.subject for f in found if f.level is Level.ERROR] == ["identity"]
    assert {f.subject for f in found} == {"identity", "session", "CDK CLI", "Node"}


def test_credentials_of_another_account_stop_it() -> None:
    other = plan(account="999999999999")
    (text,) = texts(Level.ERROR, other)
    assert text.startswith(f"identity: these are credentials of account {ACCOUNT}")
    assert texts(Level.ERROR, other, identity=Identity("999999999999", "arn")) == []


@pytest.mark.parametrize(
    ("left", "level"), [(-1, Level.ERROR), (10, Level.WARNING), (200, Level.OK), (None, Level.WARNING)]
)
def test_temporary_credentials_against_the_worst_case(left: int | None, level: Level) -> None:
    ends = None if left is None else NOW + timedelta(minutes=left)
    session = Session(temporary=True, renewable=False, expires_at=ends)
    found = [finding for finding in check(plan(), facts(session=session)) if finding.subject == "session"]
    assert [finding.level for finding in found] == [level]


def test_credentials_that_renew_themselves_are_enough() -> None:
    session = Session(temporary=True, renewable=True, expires_at=NOW + timedelta(minutes=1))
    found = [finding for finding in check(plan(), facts(session=session)) if finding.subject == "session"]
    assert found[0].level is Level.OK


def test_the_worst_case_counts_builds_once_and_endpoints_three_at_a_time() -> None:
    one = worst_case_s(plan())
    assert worst_case_s(plan(builds=[])) < one
    three = plan({key: endpoint(key) for key in "abc"})
    four = plan({key: endpoint(key) for key in "abcd"})
    assert worst_case_s(three) == one
    assert worst_case_s(four) == one + 1620


@pytest.mark.parametrize(
    ("versions", "level", "words"),
    [
        (Versions("", "2.1148.1", "v24.1.0", 18), Level.ERROR, "CDK CLI: is not installed"),
        (Versions("2.1.0", "2.1148.1", "v24.1.0", 18), Level.WARNING, "and package.json pins 2.1148.1"),
        (Versions("2.1148.1", "2.1148.1", "v16.0.0", 18), Level.ERROR, "the CDK CLI needs 18 or newer"),
        (Versions("2.1148.1", "2.1148.1", "", 18), Level.ERROR, "Node: does not start"),
    ],
)
def test_versions(versions: Versions, level: Level, words: str) -> None:
    (text,) = texts(level, versions=versions)
    assert words in text
    assert text.endswith("make setup")


@pytest.mark.parametrize(
    ("version", "words"), [(0, "is not bootstrapped"), (5, "is version 5, and the stacks")]
)
def test_bootstrap(version: int, words: str) -> None:
    (text,) = texts(Level.ERROR, bootstrap=version)
    assert words in text
    assert text.endswith(f"node_modules/.bin/cdk bootstrap aws://{ACCOUNT}/{REGION}")


@pytest.mark.parametrize(
    ("status", "protected", "level", "words"),
    [
        ("CREATE_COMPLETE", False, None, ""),
        ("UPDATE_IN_PROGRESS", False, Level.ERROR, "semif watch dev"),
        ("ROLLBACK_COMPLETE", False, Level.NOTE, "the deployment makes it anew"),
        ("ROLLBACK_COMPLETE", True, Level.ERROR, "--no-enable-termination-protection"),
        ("UPDATE_ROLLBACK_FAILED", False, Level.ERROR, "aws cloudformation continue-update-rollback"),
        ("DELETE_FAILED", False, Level.ERROR, "aws cloudformation delete-stack"),
        ("CREATE_COMPLETE", True, Level.OK, "protected from deletion"),
    ],
)
def test_stacks(status: str, protected: bool, level: Level | None, words: str) -> None:
    stacks = {"semif-dev-decisions": StackState(STACK_ID, status, protected)}
    found = [f for f in check(plan(), facts(stacks=stacks)) if f.subject == "semif-dev-decisions"]
    assert [f.level for f in found] == ([] if level is None else [level])
    assert all(words in f.text for f in found)


def test_an_endpoint_of_the_same_name_that_is_not_the_stacks() -> None:
    strange = {"decisions": EndpointState("InService", "", {})}
    (text,) = texts(Level.ERROR, endpoints=strange)
    assert "an endpoint of this name exists, InService, that no stack of this project made" in text
    assert text.endswith(
        f"aws sagemaker delete-endpoint --endpoint-name semif-dev-decisions --region {REGION}"
    )
    assert texts(Level.ERROR, **serving(g6e_xlarge=1)) == []


def test_builds_against_their_quota() -> None:
    both = {"semif-dev-archive": "BUILD_GENERAL1_SMALL", "semif-dev-image-cuda": "BUILD_GENERAL1_SMALL"}
    name = "Concurrently running builds for Linux/Small environment"

    def found(value: float, level: Level) -> list[str]:
        small = {"BUILD_GENERAL1_SMALL": Quota(name, "L-1", value)}
        return texts(level, compute_types=both, build_quotas=small)

    assert found(2, Level.ERROR) == found(2, Level.WARNING) == []
    assert "is 1, 2 wanted at once: one waits for the other" in found(1, Level.WARNING)[0]
    assert found(0, Level.ERROR)[0].endswith(
        f"--service-code codebuild --quota-code L-1 --desired-value 2 --region {REGION}"
    )


@pytest.mark.parametrize(
    ("state", "secret", "level", "words"),
    [
        ("closed", None, Level.ERROR, "it is gated or private"),
        ("closed", "hf", Level.OK, "the build has that of hf"),
        ("missing", None, Level.ERROR, "is not there (HTTP 404)"),
        ("unreachable", None, Level.WARNING, "the build may reach it"),
        ("elsewhere", None, Level.ERROR, f"SageMaker reads models from {REGION} only"),
    ],
)
def test_the_models_source(state: Any, secret: str | None, level: Level, words: str) -> None:
    planned = plan(model={**HUB, "token_secret": secret})
    detail = "us-east-1" if state == "elsewhere" else "HTTP 404"
    found = [
        f
        for f in check(planned, facts(sources={HUB["url"]: Source(state, detail)}))
        if f.subject.startswith("model ")
    ]
    assert [f.level for f in found] == [level]
    assert words in found[0].text


def test_a_secret_that_is_missing() -> None:
    planned = plan(model={**HUB, "token_secret": "hf"})
    (text,) = texts(Level.ERROR, planned, secrets={"hf": False})
    assert text.endswith(
        f"aws secretsmanager create-secret --name hf --secret-string file://hf-token.txt --region {REGION}"
    )
    assert texts(Level.ERROR, planned, secrets={"hf": True}) == []


def test_foreign_text_cannot_reach_the_terminal() -> None:
    (text,) = texts(Level.WARNING, sources={HUB["url"]: Source("unreachable", "a\x1b[31m\nb")})
    assert "\x1b" not in text
    assert "\n" not in text


def test_the_last_resorts_own_model_is_looked_at_too() -> None:
    other = {"kind": "s3", "uri": "s3://bucket/models/small/"}
    one = plan({"decisions": endpoint(last_resort=["ml.g5.2xlarge"], last_resort_model=other)})
    assert [model.address for model in one.models] == [HUB["url"], "s3://bucket/models/small/"]
    assert [model.ready for model in one.models] == [False, True]
    (text,) = texts(Level.ERROR, one, sources={"s3://bucket/models/small/": Source("elsewhere", "us-east-1")})
    assert text.startswith("model s3://bucket/models/small/: its bucket is in us-east-1")
