"""docker's commands where no image can be built: the build's content becomes an image that is not one.

Its only layer is the build context, and hosting runs the server in it with this Python's packages. So all
around a build is real, and the image itself is not proven.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import shutil
import sys
import tarfile
from pathlib import Path
from typing import Any

from localaws.registry.buildah import NOT_PROVEN
from localaws.registry.docker.arguments import Parsed
from localaws.registry.docker.local_aws import DockerError, LocalRegistry
from localaws.registry.manifests import canonical, digest_of, docker_manifest

UNPROVEN = "localaws.unproven"
"""Label of images that this makes."""
CONTEXT = "context"
"""Where the build's content lies in the image."""
_LAYER = "application/vnd.docker.image.rootfs.diff.tar.gzip"
_SBOM = "opt/semif/sbom.cdx.json"


class FallbackEngine:
    """Images as folders of skopeo's layout `dir:`, by their names."""

    def __init__(self, folder: Path, registry: LocalRegistry) -> None:
        self._images = folder / "unproven"
        self._registry = registry

    def build(self, parsed: Parsed) -> None:
        """Pack the context; nothing of the Dockerfile is run."""
        print(NOT_PROVEN, flush=True)
        (context,) = (Path(word) for word in parsed.positional)
        dockerfile = Path(parsed.values.get("file") or context / "Dockerfile")
        if not dockerfile.is_file():
            raise DockerError(f"failed to read dockerfile: open {dockerfile}: no such file or directory")
        layer = _packed(context)
        compressed = gzip.compress(layer, mtime=0)
        arguments = sorted(parsed.lists.get("build_args", ()))
        labels = {
            UNPROVEN: NOT_PROVEN,
            "localaws.dockerfile": dockerfile.name,
            "localaws.args": "\n".join(arguments),
        }
        config = canonical(
            {
                "architecture": "amd64",
                "os": "linux",
                "config": {"Entrypoint": ["python", "-m", "semif_server"], "Labels": labels},
                "rootfs": {"type": "layers", "diff_ids": [digest_of(layer)]},
            }
        )
        described = {"mediaType": _LAYER, "size": len(compressed), "digest": digest_of(compressed)}
        for tag in parsed.lists.get("tags", ()):
            folder = self._folder(tag)
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            for content in (config, compressed):
                (folder / digest_of(content).removeprefix("sha256:")).write_bytes(content)
            (folder / "manifest.json").write_bytes(docker_manifest(config, [described]))
            print(f"Successfully tagged {tag}")

    def inspect(self, reference: str) -> dict[str, Any]:
        """Describe an image; one that was not built here stands for a base and is empty."""
        folder = self._folder(reference)
        if not folder.exists():
            layers: list[str] = []
            return _description(reference, "sha256:" + "0" * 64, 0, layers)
        manifest = json.loads((folder / "manifest.json").read_bytes())
        config = json.loads(self._blob(folder, manifest["config"]["digest"]).read_bytes())
        size = len(gzip.decompress(self._blob(folder, manifest["layers"][0]["digest"]).read_bytes()))
        return _description(reference, manifest["config"]["digest"], size, config["rootfs"]["diff_ids"])

    def pull(self, reference: str) -> None:
        """Nothing is needed of a base image."""
        print(f"{NOT_PROVEN}; {reference} is not pulled")

    def run(self, parsed: Parsed) -> int:
        """Show a file of an image with `cat`; no program of it can run."""
        reference, *paths = parsed.positional
        if parsed.values.get("entrypoint") != "cat" or len(paths) != 1:
            raise DockerError(f"{NOT_PROVEN}; docker run answers --entrypoint cat IMAGE FILE only")
        folder = self._existing(reference)
        manifest = json.loads((folder / "manifest.json").read_bytes())
        with tarfile.open(self._blob(folder, manifest["layers"][0]["digest"])) as archive:
            try:
                found = archive.extractfile(paths[0].lstrip("/"))
            except KeyError:
                found = None
            if found is None:
                print(f"cat: {paths[0]}: No such file or directory", file=sys.stderr)
                return 1
            sys.stdout.write(found.read().decode())
        return 0

    def tag(self, old: str, new: str) -> None:
        """Give an image another name."""
        shutil.copytree(self._existing(old), self._folder(new), dirs_exist_ok=True)

    def remove(self, reference: str) -> None:
        """Forget an image's name."""
        shutil.rmtree(self._existing(reference))

    def push(self, reference: str) -> None:
        """Hand an image to the local AWS, as OCI where a fault asks for it."""
        source = self._existing(reference)
        form = self._registry.push_format(reference)
        folder = source.with_name(f"{source.name}-push")
        shutil.copytree(source, folder, dirs_exist_ok=True)
        try:
            if form == "oci":
                manifest = (folder / "manifest.json").read_text()
                for docker, oci in _OCI.items():
                    manifest = manifest.replace(docker, oci)
                (folder / "manifest.json").write_text(manifest)
            taken = self._registry.push(reference, folder)
        finally:
            shutil.rmtree(folder)
        print(f"{reference.rpartition(':')[2]}: digest: {taken['digest']} size: {taken['bytes']}")

    def _folder(self, reference: str) -> Path:
        return self._images / hashlib.sha256(reference.encode()).hexdigest()

    def _existing(self, reference: str) -> Path:
        folder = self._folder(reference)
        if not folder.exists():
            raise DockerError(f"No such image: {reference}")
        return folder

    @staticmethod
    def _blob(folder: Path, digest: str) -> Path:
        return folder / digest.removeprefix("sha256:")


_OCI = {
    "application/vnd.docker.distribution.manifest.v2+json": "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.container.image.v1+json": "application/vnd.oci.image.config.v1+json",
    _LAYER: "application/vnd.oci.image.layer.v1.tar+gzip",
}


def _description(reference: str, image_id: str, size_bytes: int, layers: list[str]) -> dict[str, Any]:
    return {
        "Id": image_id,
        "RepoTags": [reference],
        "Architecture": "amd64",
        "Os": "linux",
        "Size": size_bytes,
        "RootFS": {"Type": "layers", "Layers": layers},
    }


def _packed(context: Path) -> bytes:
    """Return a tar file of the context and of an SBOM that says what this is; the same for the same files."""
    files = sorted(path for path in context.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    note = {"name": "localaws:unproven", "value": NOT_PROVEN}
    sbom = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"properties": [note]},
        "components": [{"type": "application", "name": "semif-server"}],
    }
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for path in files:
            _add(archive, f"{CONTEXT}/{path.relative_to(context)}", path.read_bytes())
        _add(archive, _SBOM, canonical(sbom))
    return packed.getvalue()


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(content), 0o644
    archive.addfile(member, io.BytesIO(content))
