"""docker's commands by buildah, on this local AWS's own storage."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from localaws.registry import containers, root_file_system
from localaws.registry.buildah import Storage, host_mounts
from localaws.registry.docker.arguments import Parsed
from localaws.registry.docker.local_aws import DockerError, LocalRegistry


class BuildahEngine:
    """Builds, describes, runs and moves images."""

    def __init__(self, storage: Storage, registry: LocalRegistry) -> None:
        self._storage = storage
        self._registry = registry

    def build(self, parsed: Parsed) -> None:
        """`docker build`: no base image is fetched, and RUN steps reach the network as this machine does."""
        (context,) = parsed.positional
        dockerfile = parsed.values.get("file") or str(Path(context) / "Dockerfile")
        flags = ["--format", "docker", "--isolation", "chroot", "--pull-never", "--file", dockerfile]
        # A stage that is only a base's name would be the base itself, and be removed as intermediate at the
        # end. An annotation makes it an image of its own; Docker's format has none, so it shows nowhere.
        flags += ["--annotation", "localaws.stage=own"]
        for flag, key in (("--tag", "tags"), ("--build-arg", "build_args"), ("--label", "labels")):
            for value in parsed.lists.get(key, ()):
                flags += [flag, value]
        if "network" in parsed.values:
            flags += ["--network", parsed.values["network"]]
        self._stream("build", *flags, *host_mounts(), context)

    def inspect(self, reference: str) -> dict[str, Any]:
        """`docker image inspect`, with what the rest of docker's description is made from."""
        described = self._described(reference)
        config = json.loads(described["Config"])
        layers = config["rootfs"]["diff_ids"]
        return {
            "Id": f"sha256:{described['FromImageID']}",
            "RepoTags": [reference],
            "Created": config.get("created", ""),
            "Architecture": config["architecture"],
            "Os": config["os"],
            "Size": sum(self._layer_sizes().get(layer, 0) for layer in layers),
            "Config": config.get("config") or {},
            "RootFS": {"Type": "layers", "Layers": layers},
        }

    def pull(self, reference: str) -> None:
        """`docker pull`: from the local AWS's registry; what the storage has stays as it is."""
        if self._storage.run("inspect", "--type", "image", reference).returncode == 0:
            print(f"Status: Image is up to date for {reference}")
            return
        if ".dkr.ecr" not in reference.partition("/")[0]:
            raise DockerError(
                f"{reference}: not found; the local AWS reaches no registry but its own ECR,"
                f" and images in {self._storage.shared}"
            )
        with self._temporary() as folder:
            self._registry.pull(reference, folder)
            image = self._call("pull", "--quiet", f"dir:{folder}").strip()
        # A name by digest finds an image by its digest and any tag of that repository.
        self._call("tag", image, reference.replace("@sha256:", ":pulled-") if "@" in reference else reference)
        print(f"Status: Downloaded newer image for {reference}")

    def run(self, parsed: Parsed) -> int:
        """`docker run`: the image's program with the image's variables, and the read-only root if asked."""
        if os.geteuid() != 0:
            # Mounting an image's folder needs the user's own namespace for all of it.
            again = [sys.executable, "-P", "-m", "localaws.registry.docker", *sys.argv[1:]]
            os.execvp("buildah", ["buildah", "unshare", *again])  # noqa: S606 - in our place
        reference, *arguments = parsed.positional
        config = json.loads(self._described(reference)["Config"])
        entry = parsed.values.get("entrypoint")
        argv = [entry, *arguments] if entry else root_file_system.entry_point(config, arguments)
        given = dict(value.partition("=")[::2] for value in parsed.lists.get("variables", ()))
        environment = {**root_file_system.variables(config), **given}
        container = self._call("from", "--pull-never", reference).strip()
        try:
            root = Path(self._call("mount", container).strip())
            command = containers.command(
                root, config, argv, environment, read_only="--read-only" in parsed.switches
            )
            return subprocess.run(command, check=False).returncode
        finally:
            self._storage.run("rm", container)

    def tag(self, old: str, new: str) -> None:
        """`docker tag`."""
        self._call("tag", old, new)

    def remove(self, reference: str) -> None:
        """`docker rmi`."""
        self._call("rmi", reference)
        print(f"Untagged: {reference}")

    def push(self, reference: str) -> None:
        """`docker push`: pack, and hand over to the local AWS."""
        form = self._registry.push_format(reference)
        print(f"The push refers to repository [{reference.rpartition(':')[0]}]")
        with self._temporary() as folder:
            self._call("push", "--quiet", "--format", form, reference, f"dir:{folder}")
            taken = self._registry.push(reference, folder)
        print(f"{reference.rpartition(':')[2]}: digest: {taken['digest']} size: {taken['bytes']}")

    @contextlib.contextmanager
    def _temporary(self) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(dir=self._storage.folder / "tmp") as folder:
            yield Path(folder)

    def _described(self, reference: str) -> Mapping[str, Any]:
        done = self._storage.run("inspect", "--type", "image", reference)
        if done.returncode != 0:
            raise DockerError(f"No such image: {reference}")
        found: Mapping[str, Any] = json.loads(done.stdout)
        return found

    def _layer_sizes(self) -> dict[str, int]:
        """Unpacked bytes of each layer of both storages, by diff id."""
        sizes: dict[str, int] = {}
        for store in (self._storage.shared, self._storage.folder / "storage"):
            listing = store / "vfs-layers" / "layers.json"
            for layer in json.loads(listing.read_bytes() or b"[]") if listing.exists() else []:
                sizes[layer.get("diff-digest", "")] = layer.get("diff-size", 0)
        return sizes

    def _stream(self, *arguments: str) -> None:
        command = self._storage.command(*arguments)
        code = subprocess.run(command, env=self._storage.environment(), check=False).returncode
        if code != 0:
            raise DockerError(f"buildah {arguments[0]} ended with exit code {code}")

    def _call(self, *arguments: str) -> str:
        done = self._storage.run(*arguments)
        if done.returncode != 0:
            raise DockerError(done.stderr.strip() or f"buildah {arguments[0]} failed")
        return done.stdout
