"""Containers as a fleet: what they are once healthy, and their end all at the same time."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from datetime import UTC, datetime

from localaws.sagemaker.hosting import HostedVariant
from localaws.sagemaker.models import ServingVariant


def serving(hosted: HostedVariant) -> ServingVariant:
    """Return what DescribeEndpoint tells of a container that has just become healthy."""
    variant = hosted.placement.variant
    return ServingVariant(
        name=variant.name,
        instance_type=hosted.placement.entry.instance_type,
        native_pool=variant.native_pool,
        instance_count=variant.instance_count,
        weight=variant.weight,
        image=hosted.model.image,
        resolved_image=hosted.image.resolved,
        resolved_at=datetime.now(UTC),
        fleet=hosted.placement.fleet,
    )


def stop_all(hosted: Iterable[HostedVariant], drain_s: float = 0.0) -> None:
    """Stop variants at the same time and return when all are gone."""
    threads = [threading.Thread(target=variant.stop, args=(drain_s,), daemon=True) for variant in hosted]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
