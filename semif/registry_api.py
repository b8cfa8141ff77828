"""What a tag means in a container registry now: the HTTP API v2, read without an account."""

import hashlib
import ipaddress
import re

import httpx

from semif.errors import NotFoundError, NotReadableError, RetryableError, ServiceError, UnreachableError

MANIFEST_TYPES = (
    "application/vnd.docker.distribution.manifest.v2+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.oci.image.index.v1+json",
)
_PARAMETER = re.compile(r'(\w+)="([^"]*)"')


class Registry:
    """One registry, such as public.ecr.aws; `host` may have a port. On this machine itself it speaks http."""

    def __init__(self, host: str, *, timeout_s: float) -> None:
        self.host = host
        local = _is_loopback(host)
        self._client = httpx.Client(
            base_url=f"{'http' if local else 'https'}://{host}",
            timeout=timeout_s,
            # A proxy of the environment is for other machines, not for this one.
            trust_env=not local,
        )
        self._tokens: dict[str, str] = {}

    def close(self) -> None:
        """Close its connections."""
        self._client.close()

    def digest(self, repository: str, tag: str) -> str:
        """The digest of the manifest, or of the index of manifests, that a tag names now.

        Raises `UnreachableError`, `NotFoundError`, `RetryableError` (a limit of requests) or `ServiceError`.
        """
        response = self._manifest(repository, tag)
        if response.status_code == httpx.codes.UNAUTHORIZED and repository not in self._tokens:
            self._tokens[repository] = self._token(response.headers.get("www-authenticate", ""))
            response = self._manifest(repository, tag)
        place = f"{self.host}/{repository}:{tag}"
        if response.status_code == httpx.codes.NOT_FOUND:
            raise NotFoundError("no_such_tag", f"{place} does not exist", next_step="check the tag")
        _check(response, place)
        computed = f"sha256:{hashlib.sha256(response.content).hexdigest()}"
        named = response.headers.get("docker-content-digest", computed)
        if named != computed:
            raise NotReadableError(
                "digest_differs",
                f"{place}: the registry says {named}, the manifest's checksum is {computed}",
                next_step="ask again; if it stays, something between here and the registry changes answers",
            )
        return computed

    def _manifest(self, repository: str, tag: str) -> httpx.Response:
        headers = {"accept": ", ".join(MANIFEST_TYPES)}
        if repository in self._tokens:
            headers["authorization"] = f"Bearer {self._tokens[repository]}"
        return self._get(f"/v2/{repository}/manifests/{tag}", headers=headers)

    def _token(self, challenge: str) -> str:
        """Get the token where the registry's challenge says; public images need no account."""
        parameters = dict(_PARAMETER.findall(challenge))
        realm = parameters.pop("realm", "")
        if not challenge.lower().startswith("bearer ") or not realm:
            raise ServiceError(
                "no_anonymous_read",
                f"{self.host} asks for a login that is not known here: {challenge or 'no challenge'}",
                next_step="use a public registry",
            )
        response = self._get(realm, params=parameters)
        _check(response, realm)
        try:
            answer = response.json()
            token = answer.get("token") or answer["access_token"]
        except (ValueError, LookupError, AttributeError):
            token = None
        if not isinstance(token, str):
            raise NotReadableError(
                "no_token", f"{realm} answered without a token", next_step="ask again later"
            )
        return token

    def _get(self, address: str, **arguments: dict[str, str]) -> httpx.Response:
        try:
            return self._client.get(address, follow_redirects=True, **arguments)  # type: ignore[arg-type]
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise UnreachableError(
                "registry_unreachable",
                f"{self.host}: {error or type(error).__name__}",
                next_step="check the connection to the internet; nothing was changed",
            ) from error


def _check(response: httpx.Response, place: str) -> None:
    if response.status_code == httpx.codes.TOO_MANY_REQUESTS:
        raise RetryableError(
            "too_many_requests", f"{place}: the registry asks to slow down", next_step="wait"
        )
    if response.status_code != httpx.codes.OK:
        raise ServiceError(
            "registry_refused",
            f"{place}: HTTP {response.status_code} {response.text[:200]}",
            next_step="check the repository's name and whether it is public",
        )


def _is_loopback(host: str) -> bool:
    name = host.rpartition(":")[0] or host
    try:
        return ipaddress.ip_address(name.strip("[]")).is_loopback
    except ValueError:
        return name == "localhost"
