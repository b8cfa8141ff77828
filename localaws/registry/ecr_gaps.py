"""What moto's ECR lacks: digests of manifests, sizes, tags that move or may not, scans and their findings.

moto keeps repositories and images, and answers; these replace what its two classes decide wrongly.
"""

from __future__ import annotations

import copy
import fnmatch
import json
import threading
from datetime import datetime
from typing import Any

from moto.core.exceptions import ServiceException
from moto.ecr import exceptions
from moto.ecr import models as moto_ecr

from localaws.registry import manifests
from localaws.registry.faults import RegistryFaults

_lock = threading.RLock()


class ImageTagAlreadyExistsException(ServiceException):
    """Another image under an immutable tag. moto tells an exception's service by its module."""

    __module__ = exceptions.__name__
    code = "ImageTagAlreadyExistsException"


class ImageDigestDoesNotMatchException(ServiceException):
    """PutImage with a digest that is not its manifest's."""

    __module__ = exceptions.__name__
    code = "ImageDigestDoesNotMatchException"


def fill(faults: RegistryFaults) -> None:
    """Put our decisions into moto's ECR; `faults` say how scans end."""

    def describe_findings(
        self: Any, registry_id: str | None, repository_name: str, image_id: dict[str, Any]
    ) -> dict[str, Any]:
        repository = self._get_repository(repository_name, registry_id)
        image = repository._get_image(image_id.get("imageTag"), image_id.get("imageDigest"))
        if image.last_scan is None:
            shown = f"{{imageDigest:'{image.get_image_digest()}', imageTag:'{image.image_tag or 'null'}'}}"
            raise exceptions.ScanNotFoundException(shown, repository_name, repository.registry_id)
        status, findings = _scanned(image, faults)
        return {
            "registryId": repository.registry_id,
            "repositoryName": repository_name,
            "imageId": {**image_id, "imageDigest": image.get_image_digest()},
            "imageScanStatus": status,
            **({"imageScanFindings": findings} if findings else {}),
        }

    image: Any = moto_ecr.Image
    image.get_image_size_in_bytes = lambda self: manifests.size_bytes(json.loads(self.image_manifest))
    image.artifact_media_type = property(
        lambda self: json.loads(self.image_manifest).get("config", {}).get("mediaType")
    )
    image.image_scan_status = property(lambda self: _scanned(self, faults)[0])
    image.image_scan_findings_summary = property(lambda self: _summary(_scanned(self, faults)[1]))
    backend: Any = moto_ecr.ECRBackend
    backend.put_image = _put_image
    backend.batch_get_image = _batch_get_image
    backend.describe_image_scan_findings = describe_findings


def _put_image(  # noqa: PLR0917 - moto's signature
    self: Any,
    repository_name: str,
    image_manifest: str,
    image_tag: str | None,
    image_manifest_mediatype: str | None = None,
    digest: str | None = None,
) -> Any:
    repository = self._get_repository(repository_name)
    try:
        document = json.loads(image_manifest)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise exceptions.InvalidParameterException(
            "Invalid parameter at 'ImageManifest' failed to satisfy constraint: 'Invalid JSON syntax'"
        )
    computed = manifests.digest_of(image_manifest.encode())
    if digest not in {None, computed}:
        raise ImageDigestDoesNotMatchException(
            f"The image digest '{digest}' does not match the digest of the image manifest, '{computed}'",
        )
    kind = image_manifest_mediatype or document.get("mediaType")
    if kind is None:
        raise exceptions.InvalidParameterException(
            "image manifest mediatype not provided in manifest or parameter"
        )
    with _lock:
        same = next((one for one in repository.images if one.get_image_digest() == computed), None)
        holder = next((one for one in repository.images if image_tag in one.image_tags), None)
        if same is not None and (image_tag is None or holder is same):
            raise exceptions.ImageAlreadyExistsException(
                registry_id=repository.registry_id,
                image_tag=image_tag or "null",
                digest=computed,
                repository_name=repository_name,
            )
        if holder is not None and image_tag is not None:
            if _is_immutable(repository, image_tag):
                raise ImageTagAlreadyExistsException(
                    f"The image tag '{image_tag}' already exists in the '{repository_name}' repository"
                    " and cannot be overwritten because the tag is immutable.",
                )
            holder.image_tags.remove(image_tag)
            holder.image_tag = holder.image_tags[-1] if holder.image_tags else None
        if same is None:
            make: Any = moto_ecr.Image
            same = make(self.account_id, image_tag, image_manifest, repository_name, kind, computed)
            if repository.image_scanning_configuration.get("scanOnPush"):
                same.last_scan = datetime.today()  # noqa: DTZ002 - moto compares it with its own today
            repository.images.append(same)
        else:
            same.update_tag(image_tag)
        return _under(same, image_tag)


def _is_immutable(repository: Any, tag: str) -> bool:
    filters = repository.image_tag_mutability_exclusion_filters or []
    excluded = any(fnmatch.fnmatchcase(tag, entry["filter"]) for entry in filters)
    return bool(repository.is_tag_immutable()) != excluded


def _batch_get_image(
    self: Any,
    repository_name: str,
    registry_id: str | None = None,
    image_ids: list[dict[str, Any]] | None = None,
) -> dict[str, Any]:
    repository = self._get_repository(repository_name, registry_id)
    images, failures = [], []
    for image_id in image_ids or []:
        tag, digest = image_id.get("imageTag"), image_id.get("imageDigest")
        try:
            images.append(_under(repository._get_image(tag, digest), tag))
        except exceptions.ImageNotFoundException:
            reason = {"failureCode": "ImageNotFound", "failureReason": "Requested image not found"}
            failures.append({"imageId": image_id, **reason})
    return {"images": images, "failures": failures}


def _under(image: Any, tag: str | None) -> Any:
    """The image as an answer shows it that was asked for one of its tags."""
    shown = copy.copy(image)
    shown.image_tag = tag or image.image_tag
    return shown


def _scanned(image: Any, faults: RegistryFaults) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """Return ECR's `imageScanStatus` and `imageScanFindings`; None each where there are none."""
    if image.last_scan is None:
        return None, None
    scan = faults.scan(image.repository_name)
    status = {"status": scan.status, "description": f"The scan's status is {scan.status}."}
    if scan.status != "COMPLETE":
        return status, None
    counts = {severity: count for severity, count in (scan.findings or {}).items() if count}
    found = [
        {
            "name": f"CVE-0000-{number:04}",
            "severity": severity,
            "description": "A finding that a fault of the local AWS made up.",
            "attributes": [{"key": "package_name", "value": "made-up"}],
        }
        for severity, count in counts.items()
        for number in range(1, count + 1)
    ]
    when = image.last_scan.timestamp()
    return status, {
        "imageScanCompletedAt": when,
        "vulnerabilitySourceUpdatedAt": when,
        "findings": found,
        "findingSeverityCounts": counts,
    }


def _summary(findings: dict[str, Any] | None) -> dict[str, Any] | None:
    return {key: value for key, value in findings.items() if key != "findings"} if findings else None
