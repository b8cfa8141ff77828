"""Hosting a variant: fetch the model data, start the container, ping it until it is healthy."""

from __future__ import annotations

import logging
import secrets
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from localaws.clients import Clients
from localaws.protocol import Scope
from localaws.registry.registry import UnsupportedManifestError
from localaws.registry.root_file_system import LayerError
from localaws.sagemaker import messages, model_data, shim
from localaws.sagemaker.container import Container
from localaws.sagemaker.container_logs import LogShipper
from localaws.sagemaker.images import Image, ImageRegistry, RootImage
from localaws.sagemaker.lifecycle import Placement, injected_failure
from localaws.sagemaker.models import Model

log = logging.getLogger("localaws.sagemaker")


@dataclass(frozen=True, slots=True)
class HostingSettings:
    """Times of hosting; the defaults are SageMaker's."""

    ping_interval_s: float = 0.2
    ping_timeout_s: float = 2.0
    stop_grace_s: float = 30.0
    startup_cap_s: float = 3600.0
    """Upper limit on any variant's own start-up and download time-outs, so that tests end soon."""
    invocation_limit_s: float = 60.0
    stream_limit_s: float = 480.0


class HostingError(Exception):
    """A variant cannot be brought into service. The text is SageMaker's FailureReason."""


class ClosingError(Exception):
    """The local AWS is shutting down; what was being started is given up."""


class HostedVariant:
    """A running container with its log stream."""

    def __init__(
        self, placement: Placement, model: Model, image: Image | RootImage, container: Container
    ) -> None:
        self.placement = placement
        self.model = model
        self.image = image
        self.container = container
        self.logs: LogShipper | None = None
        self._idle = threading.Condition()
        self._calls = 0
        self._retired = False

    def acquire(self) -> bool:
        """Begin an invocation; False if the variant is being stopped and another one must be looked up."""
        with self._idle:
            self._calls += 0 if self._retired else 1
            return not self._retired

    def release(self) -> None:
        """End an invocation."""
        with self._idle:
            self._calls -= 1
            self._idle.notify_all()

    def stop(self, drain_s: float = 0.0) -> None:
        """Let invocations end for up to `drain_s`, stop the container and ship the last of its log."""
        with self._idle:
            self._retired = True
            self._idle.wait_for(lambda: self._calls == 0, drain_s)
        self.container.stop()
        if self.logs is not None:
            self.logs.close(timeout_s=5)


class Hosting:
    """Starts containers for accounts; `closing` gives up whatever is under way."""

    def __init__(
        self,
        clients: Clients,
        images: ImageRegistry,
        settings: HostingSettings,
        closing: threading.Event,
    ) -> None:
        self._clients = clients
        self._images = images
        self._settings = settings
        self._closing = closing

    @property
    def drain_s(self) -> float:
        """How long a replaced variant may finish what it was asked."""
        return self._settings.invocation_limit_s

    def start(self, scope: Scope, endpoint: str, placement: Placement, model: Model) -> HostedVariant:
        """Bring one variant up and return it healthy.

        Raises:
            HostingError: with the FailureReason.
            ClosingError: the local AWS shuts down.
        """
        injected = injected_failure(placement, model.name, model.role, model.data.url if model.data else "")
        if injected:
            raise HostingError(injected)
        try:
            image = self._images.get(model.image)
        except UnsupportedManifestError as error:
            raise HostingError(str(error)) from error
        except LayerError as error:
            log.warning("image of %s: %s", model.name, error)
            raise HostingError(messages.cannot_start(placement.variant.name)) from error
        if image is None:
            raise HostingError(messages.image_missing(model.name, model.role))
        folder = Path(tempfile.mkdtemp(prefix="localaws-sagemaker-"))
        try:
            self._fetch(scope, placement, model, folder)
            container = self._launch(placement, model, image, folder)
        except BaseException:
            shim.remove_folder(folder)
            raise
        hosted = HostedVariant(placement, model, image, container)
        stream = f"{placement.variant.name}/i-{secrets.token_hex(9)[:17]}"
        hosted.logs = LogShipper(
            container.output,
            lambda: self._clients.get("logs", scope),
            f"/aws/sagemaker/Endpoints/{endpoint}",
            stream,
        )
        try:
            self._wait_until_healthy(placement, container)
        except BaseException:
            hosted.stop()
            raise
        return hosted

    def _fetch(self, scope: Scope, placement: Placement, model: Model, folder: Path) -> None:
        target = folder / "model"
        target.mkdir()
        if model.data is None:
            return
        limit_s = min(placement.variant.download_timeout_s, self._settings.startup_cap_s)
        deadline = time.monotonic() + limit_s

        def checkpoint() -> None:
            if self._closing.is_set():
                raise ClosingError
            if model.data and time.monotonic() > deadline:
                raise HostingError(messages.download_timed_out(model.data.url, limit_s))

        try:
            model_data.fetch(self._clients.get("s3", scope), model.data, target, checkpoint)
        except model_data.DownloadError as error:
            log.warning("model data of %s: %s", model.name, error)
            raise HostingError(messages.download_failed(model.data.url)) from error

    def _launch(
        self, placement: Placement, model: Model, image: Image | RootImage, folder: Path
    ) -> Container:
        try:
            return Container(image, model.environment, folder, self._settings.stop_grace_s)
        except (OSError, ValueError) as error:
            log.warning("container of %s: %s", model.name, error)
            raise HostingError(messages.cannot_start(placement.variant.name)) from error

    def _wait_until_healthy(self, placement: Placement, container: Container) -> None:
        variant = placement.variant
        deadline = time.monotonic() + min(variant.startup_timeout_s, self._settings.startup_cap_s)
        while not container.ping(self._settings.ping_timeout_s) or container.exit_code is not None:
            if container.exit_code == shim.CANNOT_START:
                raise HostingError(messages.cannot_start(variant.name))
            if container.exit_code is not None or time.monotonic() > deadline:
                raise HostingError(messages.unhealthy(variant.name))
            if self._closing.wait(self._settings.ping_interval_s):
                raise ClosingError
