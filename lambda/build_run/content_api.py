"""Whether the wanted content is there, and what it is: an image in ECR, or an archive in S3."""

import json
from collections.abc import Mapping
from typing import Any, assert_never

from build_run.aws_call import call
from build_run.failures import ApiError, BuildRunError
from build_run.properties import Archive, Image

MANIFEST = "model-manifest.json"


class ContentApi:
    """Reads ECR and S3. Every refusal leaves as ApiError."""

    def __init__(self, ecr: Any, s3: Any) -> None:
        self._ecr = ecr
        self._s3 = s3

    def find(self, wanted: Image | Archive) -> Mapping[str, str] | None:
        """The attributes that the resource answers, or None while the content is not there.

        Raises BuildRunError for an archive that is there and is not the one that was asked for.
        """
        match wanted:
            case Image():
                return self._image(wanted)
            case Archive():
                return self._archive(wanted)
            case _:
                assert_never(wanted)

    def _image(self, image: Image) -> Mapping[str, str] | None:
        try:
            answer = call(
                self._ecr,
                "describe_images",
                repositoryName=image.repository_name,
                imageIds=[{"imageTag": image.tag}],
            )
        except ApiError as error:
            if error.code == "ImageNotFoundException":
                return None
            raise
        found = answer.get("imageDetails", [])
        if not found:
            return None
        digest = str(found[0]["imageDigest"])
        return {"ImageUri": f"{image.repository_uri}@{digest}", "ImageDigest": digest}

    def _archive(self, archive: Archive) -> Mapping[str, str] | None:
        key = f"{archive.prefix}{MANIFEST}"
        # GetObject answers 403 for a key that is not there unless the role may list without a condition on
        # the prefix; ListObjectsV2 carries its prefix, so the role's condition fits it.
        listed = call(self._s3, "list_objects_v2", Bucket=archive.bucket_name, Prefix=key, MaxKeys=1)
        if not any(item["Key"] == key for item in listed.get("Contents", [])):
            return None
        try:
            answer = call(self._s3, "get_object", Bucket=archive.bucket_name, Key=key)
        except ApiError as error:
            if error.code == "NoSuchKey":
                return None
            raise
        place = f"s3://{archive.bucket_name}/{archive.prefix}"
        file, sha256 = _first_file(answer["Body"].read(), place)
        if archive.sha256 and sha256 != archive.sha256:
            raise BuildRunError(
                f"archive_differs: {place} holds a file of SHA-256 {sha256}, not {archive.sha256}."
                " Next: delete that prefix or correct model.sha256 in cdk.json, deploy again."
            )
        return {"ModelUri": place, "Sha256": sha256, "File": file}


def _first_file(manifest: bytes, place: str) -> tuple[str, str]:
    """Name and SHA-256 of the manifest's first file."""
    try:
        first = json.loads(manifest)["files"][0]
        name, sha256 = first["file"], first["sha256"]
        if not isinstance(name, str) or not isinstance(sha256, str):
            raise TypeError(first)
    except (ValueError, LookupError, TypeError) as error:
        raise BuildRunError(
            f"archive_unreadable: {place}{MANIFEST} names no first file with its sha256."
            " Next: delete that prefix, deploy again."
        ) from error
    return name, sha256
