"""One build from its settings to a tagged image: the order of the steps, and nothing else.

Every step can be the last of a run. ECR holds the state: the final tag exists only on an image that passed
every proof, and a run that finds it builds nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from image_build import findings, manifest, provenance
from image_build.docker_cli import DockerCli
from image_build.documents_api import DocumentsApi
from image_build.ecr_api import EcrApi
from image_build.errors import AwsError, BuildError, FindingsError, RefusedError, Stopped
from image_build.manifest import LocalImage, Manifest
from image_build.settings import Registry, Settings

POLL_S = 5.0


@dataclass(frozen=True)
class Edges:
    """What a build touches: docker, AWS, the clock, and `say`, which prints a line.

    `password` gives docker's password for a private registry. `folder` is what docker builds.
    """

    docker: DockerCli
    ecr: EcrApi
    documents: DocumentsApi
    password: Callable[[Registry], str]
    now: Callable[[], datetime]
    sleep: Callable[[float], None]
    say: Callable[[str], None]
    folder: Path


def build_image(settings: Settings, edges: Edges) -> str:
    """Return the digest of the image under the final tag, building it if the tag is not there.

    Raises:
        BuildError: a step failed; nothing has the final tag by this run.
        Stopped: the run was told to end.
    """
    if digest := edges.ecr.digest_of(settings.image_tag):
        edges.say(f"nothing to build: {settings.repository_uri}:{settings.image_tag} is there")
        return _settled(settings, edges, digest)
    source_hash = provenance.hash_folder(edges.folder)
    for registry in settings.registries:
        edges.say(f"logging in to {registry.host}")
        edges.docker.login(registry.host, edges.password(registry))
    base = _base(settings, edges)
    if settings.python_image is not None:
        _fetch(edges, settings.python_image.reference)
    candidate = f"{settings.repository_uri}:{settings.candidate_tag}"
    edges.say(f"building {settings.dockerfile} on {settings.base_image.reference}")
    edges.docker.build(settings.dockerfile, candidate, settings.build_args)
    image = _inspected(edges, candidate)
    manifest.check_local(image, base)
    sbom = provenance.check_sbom(edges.docker.read_file(candidate, provenance.SBOM_PATH))
    edges.say(f"pushing {candidate}")
    try:
        edges.docker.push(candidate, is_there=lambda: edges.ecr.digest_of(settings.candidate_tag) is not None)
        pushed = _proven(settings, edges, image, base)
        found = provenance.documents(settings, pushed, sbom, source_hash=source_hash, finished_at=edges.now())
        edges.documents.put(found, pushed.digest)
        edges.documents.put(found)
        digest = _tagged(settings, edges, pushed)
    except (BuildError, Stopped) as error:
        if not isinstance(error, FindingsError):
            _drop_candidate(settings, edges)
        raise
    return _settled(settings, edges, digest)


def _base(settings: Settings, edges: Edges) -> LocalImage:
    """Describe the base image; the daemon's store lacks what only its builder has seen."""
    reference = settings.base_image.reference
    _fetch(edges, reference)
    return _inspected(edges, reference)


def _fetch(edges: Edges, reference: str) -> None:
    """Pull an image that is not there. A pull is tried again where a registry asks for it, a build is not."""
    if edges.docker.inspect(reference) is None:
        edges.docker.pull(reference)


def _inspected(edges: Edges, reference: str) -> LocalImage:
    described = edges.docker.inspect(reference)
    if described is None:
        raise RefusedError(
            "image_not_found", f"docker does not know {reference} that it just made", "report this as a bug"
        )
    return manifest.parse_local(described)


def _proven(settings: Settings, edges: Edges, image: LocalImage, base: LocalImage) -> Manifest:
    """Read the candidate back from ECR and hold it to every limit."""
    pushed = edges.ecr.manifest(settings.candidate_tag)
    edges.say(f"pushed as {pushed.digest}, {pushed.media_type}")
    manifest.check_manifest(pushed)
    size = manifest.added_size(pushed, image, base)
    edges.say(
        f"added size: {size.compressed_bytes / 1e6:.1f} MB compressed in {size.layers} layer(s),"
        f" {size.unpacked_bytes / 1e6:.1f} MB unpacked"
        f" (limit: {manifest.MAX_ADDED_BYTES / 1e6:.0f} MB compressed)"
    )
    manifest.check_size(size)
    _check_findings(settings, edges, pushed.digest)
    return pushed


def _check_findings(settings: Settings, edges: Edges, digest: str) -> None:
    if settings.severity is None:
        edges.say("scan: not waited for, scan_severity is NONE")
        return
    waited_s, asked = 0.0, False
    while True:
        report = edges.ecr.scan(digest)
        step = findings.next_step(report, waited_s=waited_s, asked=asked)
        if step is findings.Next.READ:
            break
        if step is findings.Next.ASK:
            asked = True
            _ask_for_scan(edges, digest)
        edges.sleep(POLL_S)
        waited_s += POLL_S
    edges.say(f"scan: {findings.summary(report.counts)}; refused from {settings.severity.name}")
    if findings.refused_count(report.counts, settings.severity):
        raise findings.refusal(
            report.counts,
            edges.ecr.findings(digest),
            settings.severity,
            candidate=f"{settings.repository}:{settings.candidate_tag}",
        )


def _ask_for_scan(edges: Edges, digest: str) -> None:
    try:
        edges.ecr.start_scan(digest)
    except AwsError as error:
        # Enhanced scanning takes no such call, and a scan that began meanwhile is what we want.
        edges.say(f"scan: {error.aws_code}; waiting for the registry's own")


def _tagged(settings: Settings, edges: Edges, pushed: Manifest) -> str:
    """Give the final tag, and return the digest that has it: another build of it may have come first."""
    if edges.ecr.put_tag(pushed, settings.image_tag):
        edges.say(f"tagged as {settings.image_tag}")
        return pushed.digest
    digest = edges.ecr.digest_of(settings.image_tag)
    if digest is None:
        raise RefusedError(
            "tag_not_given",
            f"ECR says that {settings.image_tag} exists, and does not find it",
            "run the build again",
        )
    if digest != pushed.digest:
        edges.say(f"another build gave {settings.image_tag} first, to {digest}: taking that one")
    return digest


def _settled(settings: Settings, edges: Edges, digest: str) -> str:
    """Let the tag's documents speak of its image, and leave no candidate's tag; repeats harmlessly."""
    known = edges.documents.get(digest)
    if known is None:
        edges.say(f"no documents of {digest} in {edges.documents.uri}: this program did not tag it")
    elif edges.documents.get() != known:
        edges.documents.put(known)
    left = f"candidate-{settings.image_tag}-"
    tags = {tag for tag in edges.ecr.tags_of(digest) if tag.startswith(left)}
    # Our own candidate may be on an image that lost the race: without its tag nothing refers to it.
    for tag in sorted(tags | {settings.candidate_tag}):
        edges.ecr.remove_tag(tag)
    edges.say(f"documents: {edges.documents.uri}")
    edges.say(f"image: {settings.repository_uri}@{digest}")
    return digest


def _drop_candidate(settings: Settings, edges: Edges) -> None:
    """Remove the candidate of a run that failed. ECR keeps the image if it has the final tag by now."""
    try:
        edges.ecr.remove_tag(settings.candidate_tag)
    except AwsError as error:
        edges.say(f"the candidate {settings.candidate_tag} stays: {error.message}")
