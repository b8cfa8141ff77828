"""The setting `callers`: who else may invoke an endpoint."""

from dataclasses import dataclass
from typing import Final

from stacks.dlc import partition
from stacks.mapping_reader import MappingReader, SettingsError

ANYONE: Final = "*"
_KEYS: Final = ("principals", "external_id", "organization_id", "vpc_endpoints")
_PRINCIPAL: Final = (
    r"\*|[0-9]{12}|arn:aws(-[a-z]+)*:(iam|sts)::[0-9]{12}:(root|(user|role|assumed-role)/[\w+=,.@/-]{1,512})",
    "an account id of 12 digits, the ARN of a role or user, or *",
)


@dataclass(frozen=True)
class CallersSettings:
    """`principals` are account ids, ARNs of IAM, or `*`, which is anyone of the organization."""

    principals: tuple[str, ...]
    external_id: str | None
    organization_id: str | None
    vpc_endpoints: tuple[str, ...]


def read_callers(parent: MappingReader, *, region: str) -> CallersSettings | None:
    """Read `callers`, or None where it is absent. Raises SettingsError with the key's path.

    ARNs must be of the region's partition: IAM knows no others.
    """
    if not parent.has("callers"):
        return None
    reader = parent.mapping("callers", _KEYS)
    callers = CallersSettings(
        principals=reader.texts("principals", *_PRINCIPAL),
        external_id=reader.optional_text(
            "external_id", r"[\w+=,.@:/-]{2,1224}", "2 to 1224 letters, digits and _+=,.@:/-"
        ),
        organization_id=reader.optional_text(
            "organization_id", r"o-[a-z0-9]{10,32}", "an organization's id such as o-a1b2c3d4e5"
        ),
        vpc_endpoints=(
            reader.texts("vpc_endpoints", r"vpce-[0-9a-f]{8,17}", "a VPC endpoint's id such as vpce-0a1b2c3d")
            if reader.has("vpc_endpoints")
            else ()
        ),
    )
    for i, principal in enumerate(callers.principals):
        if principal.startswith("arn:") and not principal.startswith(f"arn:{partition(region)}:"):
            raise SettingsError(
                f"{reader.at('principals')}[{i}]",
                f"is of another partition than {region}: ARNs there begin with arn:{partition(region)}:",
            )
        if principal != ANYONE:
            continue
        if callers.organization_id is None:
            raise SettingsError(
                f"{reader.at('principals')}[{i}]",
                "would let the whole world in: set organization_id too, or name accounts or ARNs",
            )
        if len(callers.principals) > 1:
            raise SettingsError(f"{reader.at('principals')}[{i}]", "is everybody: leave the others out")
    return callers
