"""What a container image's name stands for: ECR keeps the manifests, this keeps what they describe."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from localaws.clients import Clients
from localaws.registry.manifests import DOCKER_MANIFEST, media_type
from localaws.registry.references import EcrReference, parse_ecr


@dataclass(frozen=True, slots=True)
class Manifest:
    """A manifest as it lies in ECR."""

    digest: str
    media_type: str
    text: str

    @property
    def document(self) -> dict[str, Any]:
        """The parsed manifest."""
        found: dict[str, Any] = json.loads(self.text)
        return found


class UnsupportedManifestError(Exception):
    """SageMaker does not take an image of this manifest's media type, which the text names."""


class Registry:
    """ECR of all accounts, as hosting sees it. Safe for threads."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._lock = threading.Lock()

    def find(self, uri: str) -> Manifest | None:
        """Return the manifest that an ECR URI names now, None if there is none.

        Raises:
            UnsupportedManifestError: it is not a Docker v2 schema 2 image.
        """
        reference = parse_ecr(uri)
        if reference is None:
            return None
        manifest = self.manifest(reference)
        if manifest is not None and manifest.media_type != DOCKER_MANIFEST:
            raise UnsupportedManifestError(f"Unsupported manifest media type {manifest.media_type}")
        return manifest

    def put(self, reference: EcrReference, text: str, digest: str) -> None:
        """Give a manifest to ECR under the reference's tag; a repository that is missing is made.

        Raises:
            ClientError: ECR's refusal, such as that of another image under an immutable tag.
        """
        ecr = self._clients.get("ecr", reference.scope)
        kind = media_type(json.loads(text))
        tag = {"imageTag": reference.tag} if reference.tag or not reference.digest else {}
        with self._lock:
            try:
                ecr.create_repository(repositoryName=reference.repository)
            except ClientError as error:
                if error.response["Error"]["Code"] != "RepositoryAlreadyExistsException":
                    raise
            try:
                ecr.put_image(
                    repositoryName=reference.repository,
                    imageManifest=text,
                    imageManifestMediaType=kind,
                    imageDigest=digest,
                    **tag,
                )
            except ClientError as error:
                # The same image under the same tag once more: a push that has nothing to do.
                if error.response["Error"]["Code"] != "ImageAlreadyExistsException":
                    raise

    def manifest(self, reference: EcrReference) -> Manifest | None:
        """Return the manifest of any type that a reference names now, None if there is none."""
        ecr = self._clients.get("ecr", reference.scope)
        try:
            found = ecr.batch_get_image(repositoryName=reference.repository, imageIds=[reference.image_id])
        except ClientError as error:
            if error.response["Error"]["Code"] == "RepositoryNotFoundException":
                return None
            raise
        for image in found["images"]:
            text = image["imageManifest"]
            kind = image.get("imageManifestMediaType") or media_type(json.loads(text))
            return Manifest(image["imageId"]["imageDigest"], kind, text)
        return None
