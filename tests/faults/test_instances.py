"""The matrix of faults that lie in instances, containers, quotas and settings."""

from __future__ import annotations

from typing import Any

import pytest

from tests.faults.matrix import FIRST, NEXT, SECOND, Lab, Row
from tests.faults.specification import check

ALL = (FIRST, SECOND, NEXT)
KEY = "arn:aws:kms:us-east-1:123456789012:key/00000000-0000-0000-0000-000000000000"


def each(mode: str, types: tuple[str, ...] = ALL, **more: Any) -> dict[str, Any]:
    return {name: {"mode": mode, **more} for name in types}


def stops(name: str, mode: str, text: str) -> Row:
    """A failure that no other type mends: the first type's stops the walk with the cause."""
    return Row(name, faults=each(mode, (FIRST,)), create=text, update=text, rollback=text)


ROWS = (
    Row("no capacity for the first type", faults=each("capacity", (FIRST,)), serves=SECOND),
    Row("no capacity in the first round", faults=each("capacity", (FIRST, SECOND)), serves=NEXT),
    Row(
        "no capacity anywhere",
        faults=each("capacity"),
        create="InsufficientInstanceCapacity",
        update="InsufficientInstanceCapacity",
        rollback="InsufficientInstanceCapacity",
    ),
    Row("no capacity in older words", faults=each("capacity-error", (FIRST, SECOND)), serves=NEXT),
    Row(
        "no capacity, one type at a time",
        faults=each("capacity", (FIRST, SECOND)),
        properties={
            "Strategy": "serial",
            "VariantInstanceProvisionTimeoutInSeconds": None,
            "Round1": {"Type1": FIRST},
            "Round2": {"Type1": SECOND},
            "Round3": {"Type1": NEXT},
        },
        serves=NEXT,
    ),
    Row("request to service failed once", faults=each("service-failed", (FIRST,), first=1), serves=FIRST),
    stops("request to service failed", "service-failed", "Request to service failed"),
    Row("quota refused, Service Quotas says otherwise", faults=each("quota", (FIRST,)), serves=SECOND),
    Row("quota 0 of the first type", quotas={FIRST: 0}, serves=SECOND),
    Row(
        "quota 0 of every type",
        quotas=dict.fromkeys(ALL, 0),
        create="no_quota",
        update="no_quota",
        rollback="no_quota",
    ),
    Row(
        "quota 1, blue/green",
        quotas=dict.fromkeys(ALL, 1),
        properties={"Round1": {"Type1": FIRST}, "Round2": None},
        update="no_quota",
        rollback="no_quota",
    ),
    Row(
        "quota 1, recreate",
        quotas=dict.fromkeys(ALL, 1),
        properties={"Round1": {"Type1": FIRST}, "Round2": None, "Update": {"Type": "recreate"}},
        serves=FIRST,
    ),
    Row("type not offered", quotas={FIRST: None}, serves=SECOND),
    Row("type refused by SageMaker alone", faults=each("unknown-type", (FIRST,)), serves=SECOND),
    stops("ping health check", "health", "did not pass the ping health check"),
    stops("container cannot start", "start", "CannotStartContainerError"),
    stops("model data cannot be fetched", "download", "Failed to download model data"),
    stops("image is missing", "image", "Please make sure all images included in the model"),
    stops("image access", "image-access", "does not have BatchGetImage permission"),
    Row("slow creation", faults=each("slow", (FIRST,), seconds=0.5), serves=FIRST),
    Row(
        "silent rollback",
        faults=each("silent-rollback", (FIRST,)),
        update="update_rolled_back",
        rollback="update_rolled_back",
    ),
    Row(
        "rollback fails too",
        faults=each("rollback-failed", (FIRST,)),
        create="Request to service failed",
        update="endpoint_not_updatable",
        rollback="endpoint_not_updatable",
        stuck=True,
    ),
    Row(
        "NVMe type with a volume key",
        faults=each("nvme-key", (FIRST, SECOND)),
        properties={"Round1": {"Type1": FIRST, "Type2": SECOND, "KmsKeyId": KEY}},
        create="KmsKeyId is not supported",
        update="KmsKeyId is not supported",
        rollback=None,
    ),
    Row(
        "image of another region",
        image="123456789012.dkr.ecr.eu-central-1.amazonaws.com/matrix:1",
        create="Cross region ECR image pulls are not allowed",
        update="Cross region ECR image pulls are not allowed",
        rollback=None,
    ),
    Row(
        "bucket of another region",
        data_url="s3://matrix-elsewhere/model.tar.gz",
        create="Could not access model data",
        update="Could not access model data",
        rollback=None,
    ),
)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_as_specified(lab: Lab, row: Row, record_property: Any) -> None:
    check(lab, row, ROWS.index(row), record_property)
