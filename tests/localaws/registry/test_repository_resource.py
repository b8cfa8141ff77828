"""AWS::ECR::Repository: what a template says is what ECR then has."""

from __future__ import annotations

import json
from typing import Any

from tests.localaws.stacks import Stacks, template

NAME = "ecr-resource"
KEY = "arn:aws:kms:us-east-1:123456789012:key/11111111-2222-3333-4444-555555555555"


def lifecycle(days: int) -> dict[str, str]:
    selection = {"tagStatus": "untagged", "countType": "sinceImagePushed", "countNumber": days}
    rule = {"rulePriority": 1, "selection": selection | {"countUnit": "days"}, "action": {"type": "expire"}}
    return {"LifecyclePolicyText": json.dumps({"rules": [rule]})}


def text(**more: Any) -> str:
    properties = {
        "RepositoryName": NAME,
        "EncryptionConfiguration": {"EncryptionType": "KMS", "KmsKey": KEY},
        **more,
    }
    return template({"Images": {"Type": "AWS::ECR::Repository", "Properties": properties}})


def test_settings_are_applied_and_changed_in_place(stacks: Stacks) -> None:
    ecr = stacks.aws.client("ecr")
    pull = {
        "Effect": "Allow",
        "Principal": {"Service": "sagemaker.amazonaws.com"},
        "Action": "ecr:BatchGetImage",
    }
    first = text(
        ImageTagMutability="IMMUTABLE",
        ImageScanningConfiguration={"ScanOnPush": True},
        LifecyclePolicy=lifecycle(7),
        RepositoryPolicyText={"Version": "2012-10-17", "Statement": [pull]},
    )
    assert stacks.create("images", first) == "CREATE_COMPLETE"
    (made,) = ecr.describe_repositories(repositoryNames=[NAME])["repositories"]
    assert made["imageTagMutability"] == "IMMUTABLE"
    assert made["imageScanningConfiguration"] == {"scanOnPush": True}
    assert made["encryptionConfiguration"] == {"encryptionType": "KMS", "kmsKey": KEY}
    policy = json.loads(ecr.get_lifecycle_policy(repositoryName=NAME)["lifecyclePolicyText"])
    assert policy["rules"][0]["selection"]["countNumber"] == 7
    policy = json.loads(ecr.get_repository_policy(repositoryName=NAME)["policyText"])
    assert policy["Statement"] == [pull]

    second = text(
        ImageTagMutability="MUTABLE",
        ImageScanningConfiguration={"ScanOnPush": False},
        LifecyclePolicy=lifecycle(30),
    )
    assert stacks.update("images", second) == "UPDATE_COMPLETE"
    (changed,) = ecr.describe_repositories(repositoryNames=[NAME])["repositories"]
    assert changed["createdAt"] == made["createdAt"]
    assert changed["imageTagMutability"] == "MUTABLE"
    assert changed["imageScanningConfiguration"] == {"scanOnPush": False}
    policy = json.loads(ecr.get_lifecycle_policy(repositoryName=NAME)["lifecyclePolicyText"])
    assert policy["rules"][0]["selection"]["countNumber"] == 30
