"""Which accounts belong to which organization: what aws:PrincipalOrgID is evaluated with."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from typing import Any

_ORGANIZATION = re.compile(r"o-[a-z0-9]{10,32}")
_ACCOUNT = re.compile(r"\d{12}")


class OrganizationTableError(ValueError):
    """A table that cannot be read. The text names the entry and what is allowed."""


class Organizations:
    """The table `{"o-exampleorgid": ["111122223333", …]}`; an account is in one organization at most."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._accounts: Mapping[str, tuple[str, ...]] = {}

    def put(self, table: Mapping[str, Any]) -> None:
        """Replace the table.

        Raises:
            OrganizationTableError: naming the entry, what is wrong and what is allowed.
        """
        seen: dict[str, str] = {}
        read: dict[str, tuple[str, ...]] = {}
        for organization, accounts in table.items():
            if not _ORGANIZATION.fullmatch(organization):
                raise OrganizationTableError(
                    f"{organization}: not an organization's id, such as o-a1b2c3d4e5"
                )
            if not isinstance(accounts, list) or not all(_ACCOUNT.fullmatch(str(one)) for one in accounts):
                raise OrganizationTableError(f"{organization}: must be a list of accounts of 12 digits")
            for account in accounts:
                if account in seen:
                    raise OrganizationTableError(f"{organization}: {account} is in {seen[account]} already")
                seen[account] = organization
            read[organization] = tuple(accounts)
        with self._lock:
            self._accounts = read

    def table(self) -> dict[str, list[str]]:
        """Return the table as it was put."""
        with self._lock:
            return {organization: list(accounts) for organization, accounts in self._accounts.items()}

    def of(self, account: str) -> str | None:
        """Return an account's organization."""
        with self._lock:
            return next((one for one, accounts in self._accounts.items() if account in accounts), None)
