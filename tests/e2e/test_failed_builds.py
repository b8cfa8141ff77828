"""A build that fails in a deployment's update: its cause is told, the old endpoint serves, and it recovers.

Each test goes on from what the one before has deployed. The image is there already, so that the archive's
build is the only one; the same cloud assembly serves every failure that the hub or CodeBuild makes.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from localaws.hub import Fault, Hub
from localaws.session import LocalAws
from tests.e2e.builds import answers, builds, reasons
from tools.local_environment import (
    HUB_REPOSITORY,
    LocalEnvironment,
    Settings,
    Sources,
    decisions,
    hub_model,
    small_hub,
)
from tools.setup import MODEL_FILE

NAME = "broken"
HUB_FILE = f"{HUB_REPOSITORY}/{MODEL_FILE}"
POOL = "ml.c6i.2xlarge"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    with small_hub(tmp_path_factory.mktemp("hub")) as running:
        yield running


@pytest.fixture(scope="module")
def sources(hub: Hub, ready: Sources) -> Sources:
    return Sources(hub_model(), {"hub": hub.url}, ready.image)


@pytest.fixture(scope="module")
def built(aws: LocalAws, sources: Sources, tmp_path_factory: pytest.TempPathFactory) -> LocalEnvironment:
    """An endpoint in service on the archive that its deployment has built."""
    aws.put_faults({})
    environment = LocalEnvironment(aws, NAME, tmp_path_factory.mktemp("broken"), sources)
    result = environment.deploy(decisions(POOL))
    assert result.returncode == 0, result.output
    return environment


def sharded(sources: Sources, **model: Any) -> Settings:
    """Another archive than the one that is there: the same model in shards."""
    return {**decisions(POOL), "model": {**sources.model, "shard_bytes": 60_000_000, **model}}


@dataclass(frozen=True)
class Trouble:
    """What goes wrong, and the word for it in CloudFormation's reason."""

    cause: str
    hub: Fault | None = None
    aws: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    model: Mapping[str, Any] = field(default_factory=dict)


TROUBLES = {
    "wrong checksum": Trouble("checksum_mismatch", model={"sha256": "0" * 64}),
    "gated repository": Trouble("gated_repository", hub=Fault(status=401)),
    "disk full": Trouble("disk_full", hub=Fault(announce_bytes=1 << 50)),
    "truncated download": Trouble("truncated_download", hub=Fault(cut_after_bytes=1_000_000)),
    "time-out": Trouble(
        "TIMED_OUT",
        aws={f"codebuild:semif-{NAME}-archive": {"mode": "timeout", "phase": "BUILD", "seconds": 0}},
    ),
    "failed phase": Trouble(
        "PROVISIONING",
        aws={f"codebuild:semif-{NAME}-archive": {"mode": "fail", "phase": "PROVISIONING"}},
    ),
}


@pytest.fixture(params=list(TROUBLES.values()), ids=list(TROUBLES))
def trouble(request: pytest.FixtureRequest, aws: LocalAws, hub: Hub) -> Iterator[Trouble]:
    trouble: Trouble = request.param
    if trouble.hub is not None:
        hub.put_fault(HUB_FILE, trouble.hub)
    aws.put_faults(trouble.aws)
    yield trouble
    aws.put_faults({})
    hub.clear_faults()


def test_a_failed_build_fails_the_update_with_its_cause_and_the_old_endpoint_serves(
    aws: LocalAws, built: LocalEnvironment, sources: Sources, trouble: Trouble
) -> None:
    before = built.outputs("decisions")

    result = built.deploy(sharded(sources, **trouble.model), "decisions", "--exclusively")

    assert result.returncode != 0
    assert built.status("decisions") == "UPDATE_ROLLBACK_COMPLETE"
    said = reasons(aws, built, "decisions")
    assert trouble.cause in said
    assert f"semif-{NAME}-archive:" in said
    assert built.outputs("decisions") == before
    assert sum(answers(aws, built, "decisions")["probabilities"]) == pytest.approx(1, abs=1e-9)
    assert [build for build in builds(aws, built) if build["buildStatus"] == "IN_PROGRESS"] == []


def test_the_next_deployment_recovers_and_the_sharded_archive_serves(
    aws: LocalAws, built: LocalEnvironment, sources: Sources
) -> None:
    result = built.deploy(sharded(sources), "decisions", "--exclusively")

    assert result.returncode == 0, result.output
    assert "-00001-of-0000" in answers(aws, built, "decisions")["model"]["gguf"]["file"]
