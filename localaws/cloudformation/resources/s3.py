"""S3 buckets and bucket policies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from botocore.exceptions import ClientError

from localaws.cloudformation.resources.base import (
    Created,
    Properties,
    ResourceContext,
    ResourceError,
    ResourceType,
    changed,
    is_error,
    tag_list,
)


def _set_versioning(s3: Any, name: str, value: Any) -> None:
    status = (value or {}).get("Status", "Suspended")
    s3.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": status})


def _set_encryption(s3: Any, name: str, value: Any) -> None:
    if not value:
        s3.delete_bucket_encryption(Bucket=name)
        return
    rules = []
    for rule in value["ServerSideEncryptionConfiguration"]:
        entry: dict[str, Any] = {}
        if "ServerSideEncryptionByDefault" in rule:
            entry["ApplyServerSideEncryptionByDefault"] = rule["ServerSideEncryptionByDefault"]
        if "BucketKeyEnabled" in rule:
            entry["BucketKeyEnabled"] = rule["BucketKeyEnabled"] in {True, "true"}
        rules.append(entry)
    s3.put_bucket_encryption(Bucket=name, ServerSideEncryptionConfiguration={"Rules": rules})


def _set_public_access_block(s3: Any, name: str, value: Any) -> None:
    if value:
        block = {key: setting in {True, "true"} for key, setting in value.items()}
        s3.put_public_access_block(Bucket=name, PublicAccessBlockConfiguration=block)
    else:
        s3.delete_public_access_block(Bucket=name)


def _set_ownership(s3: Any, name: str, value: Any) -> None:
    if value:
        s3.put_bucket_ownership_controls(Bucket=name, OwnershipControls=value)
    else:
        s3.delete_bucket_ownership_controls(Bucket=name)


def _set_lifecycle(s3: Any, name: str, value: Any) -> None:
    if value:
        rules = [lifecycle_rule(rule) for rule in value["Rules"]]
        s3.put_bucket_lifecycle_configuration(Bucket=name, LifecycleConfiguration={"Rules": rules})
    else:
        s3.delete_bucket_lifecycle(Bucket=name)


def _set_cors(s3: Any, name: str, value: Any) -> None:
    if not value:
        s3.delete_bucket_cors(Bucket=name)
        return
    rules = [
        {key if key != "MaxAge" else "MaxAgeSeconds": setting for key, setting in rule.items()}
        for rule in value["CorsRules"]
    ]
    s3.put_bucket_cors(Bucket=name, CORSConfiguration={"CORSRules": rules})


def _set_tags(s3: Any, name: str, value: Any) -> None:
    if value:
        s3.put_bucket_tagging(Bucket=name, Tagging={"TagSet": tag_list(value)})
    else:
        s3.delete_bucket_tagging(Bucket=name)


_SETTINGS: Mapping[str, Callable[[Any, str, Any], None]] = {
    "BucketEncryption": _set_encryption,
    "CorsConfiguration": _set_cors,
    "LifecycleConfiguration": _set_lifecycle,
    "OwnershipControls": _set_ownership,
    "PublicAccessBlockConfiguration": _set_public_access_block,
    "Tags": _set_tags,
    "VersioningConfiguration": _set_versioning,
}


class Bucket(ResourceType):
    """AWS::S3::Bucket."""

    type_name = "AWS::S3::Bucket"
    applied = frozenset(("BucketName", *_SETTINGS))
    recorded = frozenset(
        ("AccessControl", "LoggingConfiguration", "NotificationConfiguration", "MetricsConfigurations")
    )

    def create(self, context: ResourceContext, properties: Properties) -> Created:
        """Create the bucket and set it up; a name that is taken by anyone is an error."""
        s3 = context.client("s3")
        name = properties.get("BucketName") or context.name(63, lower=True)
        region = context.scope.region
        where = {} if region == "us-east-1" else {"CreateBucketConfiguration": {"LocationConstraint": region}}
        if _exists(s3, name):
            raise self.already_exists(name)
        s3.create_bucket(Bucket=name, **where)
        context.physical_id = name
        self._configure(s3, name, properties, {})
        return self._created(context, name)

    def update(
        self, context: ResourceContext, physical_id: str, properties: Properties, old: Properties
    ) -> Created:
        """Apply the settings that changed."""
        self._configure(context.client("s3"), physical_id, properties, old)
        return self._created(context, physical_id)

    def delete(self, context: ResourceContext, physical_id: str, properties: Properties) -> None:
        """Delete the bucket; S3 refuses one that holds objects or versions."""
        s3 = context.client("s3")
        try:
            if s3.list_object_versions(Bucket=physical_id, MaxKeys=1).keys() & {"Versions", "DeleteMarkers"}:
                raise ResourceError(
                    "The bucket you tried to delete is not empty. You must delete all versions in the bucket."
                    f" (Service: S3, Status Code: 409, Bucket: {physical_id})",
                    physical_id,
                )
            s3.delete_bucket(Bucket=physical_id)
        except ClientError as error:
            if not is_error(error, "NoSuchBucket", "404"):
                raise

    @staticmethod
    def _configure(s3: Any, name: str, properties: Properties, old: Properties) -> None:
        for key, apply in _SETTINGS.items():
            if changed(properties, old, key):
                apply(s3, name, properties.get(key))

    @staticmethod
    def _created(context: ResourceContext, name: str) -> Created:
        region = context.scope.region
        return Created(
            name,
            {
                "Arn": f"arn:aws:s3:::{name}",
                "DomainName": f"{name}.s3.amazonaws.com",
                "DualStackDomainName": f"{name}.s3.dualstack.{region}.amazonaws.com",
                "RegionalDomainName": f"{name}.s3.{region}.amazonaws.com",
                "WebsiteURL": f"http://{name}.s3-website-{region}.amazonaws.com",
            },
        )


class BucketPolicy(ResourceType):
    """AWS::S3::BucketPolicy: recorded, not applied.

    moto evaluates bucket policies without their Conditions: a Deny on requests without TLS would refuse all.
    """

    type_name = "AWS::S3::BucketPolicy"
    applied = frozenset()
    recorded = frozenset(("Bucket", "PolicyDocument"))

    def create(self, context: ResourceContext, properties: Properties) -> Created:
        """Check that the bucket is there."""
        context.client("s3").head_bucket(Bucket=properties["Bucket"])
        return Created(properties["Bucket"])

    def update(
        self, context: ResourceContext, physical_id: str, properties: Properties, old: Properties
    ) -> Created:
        """Keep the new document."""
        return Created(physical_id)

    def delete(self, context: ResourceContext, physical_id: str, properties: Properties) -> None:
        """Forget the policy."""


def _exists(s3: Any, name: str) -> bool:
    try:
        s3.head_bucket(Bucket=name)
    except ClientError as error:
        if is_error(error, "404", "NoSuchBucket"):
            return False
        if not is_error(error, "403"):
            raise
    return True


def lifecycle_rule(rule: Mapping[str, Any]) -> dict[str, Any]:
    """Turn a rule of the template into one of the API (which groups what the template spreads)."""
    result: dict[str, Any] = {"Status": rule["Status"]}
    if "Id" in rule:
        result["ID"] = rule["Id"]
    result["Filter"] = {"Prefix": rule.get("Prefix", "")}
    if rule.get("TagFilters"):
        tags = tag_list(rule["TagFilters"])
        result["Filter"] = {"And": {"Prefix": rule.get("Prefix", ""), "Tags": tags}}
    if "ExpirationInDays" in rule:
        result["Expiration"] = {"Days": int(rule["ExpirationInDays"])}
    if rule.get("ExpiredObjectDeleteMarker") in {True, "true"}:
        result["Expiration"] = {"ExpiredObjectDeleteMarker": True}
    noncurrent = dict(rule.get("NoncurrentVersionExpiration", {}))
    if "NoncurrentVersionExpirationInDays" in rule:
        noncurrent["NoncurrentDays"] = rule["NoncurrentVersionExpirationInDays"]
    if noncurrent:
        result["NoncurrentVersionExpiration"] = {key: int(value) for key, value in noncurrent.items()}
    if "AbortIncompleteMultipartUpload" in rule:
        days = int(rule["AbortIncompleteMultipartUpload"]["DaysAfterInitiation"])
        result["AbortIncompleteMultipartUpload"] = {"DaysAfterInitiation": days}
    if "Transitions" in rule:
        result["Transitions"] = [
            {"StorageClass": item["StorageClass"], "Days": int(item["TransitionInDays"])}
            for item in rule["Transitions"]
        ]
    unknown = set(rule) - {
        *("AbortIncompleteMultipartUpload", "ExpirationInDays", "ExpiredObjectDeleteMarker", "Id", "Prefix"),
        *(
            "NoncurrentVersionExpiration",
            "NoncurrentVersionExpirationInDays",
            "Status",
            "TagFilters",
            "Transitions",
        ),
    }
    if unknown:
        raise ResourceError(f"The local AWS does not support {sorted(unknown)[0]} in a lifecycle rule")
    return result
