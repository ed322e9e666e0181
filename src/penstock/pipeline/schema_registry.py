"""A schema registry: the schema that a value was written with, by its number."""

from __future__ import annotations

import base64
import json
import os
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, unquote, urlsplit
from urllib.request import Request, urlopen

from penstock.errors import MasterError, OptionError, ServerAwayError

PASSWORD = "PENSTOCK_REGISTRY_PASSWORD"
"""The variable of the environment that a password is in, on each machine that asks."""
_SECONDS = 10.0
_ACCEPTED = "application/vnd.schemaregistry.v1+json, application/json"
_AWAY = (408, 429)


class SchemaRegistry:
    """Confluent's, or one that answers like it, such as Apicurio's under `/apis/ccompat/v7`. The
    address may name who asks, never the password.

    >>> SchemaRegistry("https://reader@registry.example:8081/")
    SchemaRegistry(https://registry.example:8081)
    """

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise OptionError(
                "registry: is no address of a schema registry; write http://host:8081."
            )
        if parts.password is not None or parts.query or parts.fragment:
            raise OptionError(
                "registry: the address has a password or parameters, which would travel in plans "
                f"and logs. Write https://user@host:8081; the password is read from {PASSWORD} in "
                "the environment, on each machine that connects."
            )
        host = parts.netloc.rpartition("@")[2]
        self._user = unquote(parts.username) if parts.username else None
        self._place = f"{parts.scheme}://{host}{parts.path.rstrip('/')}"

    def __repr__(self) -> str:
        return f"SchemaRegistry({self._place})"

    def schema(self, number: int) -> dict[str, Any] | None:
        """What it says of a schema (`schema`, `schemaType`, `references`); None if it has none."""
        return self._get(f"/schemas/ids/{number}")

    def newest(self, subject: str) -> dict[str, Any] | None:
        """The same of a subject's newest version."""
        return self._get(f"/subjects/{quote(subject, safe='')}/versions/latest")

    def _get(self, path: str) -> dict[str, Any] | None:
        request = Request(self._place + path, headers={"Accept": _ACCEPTED})
        if self._user is not None:
            said = f"{self._user}:{os.environ.get(PASSWORD, '')}".encode()
            # Not to whom the registry may send us on.
            request.add_unredirected_header(
                "Authorization", f"Basic {base64.b64encode(said).decode()}"
            )
        try:
            with urlopen(request, timeout=_SECONDS) as answer:
                found = json.loads(answer.read())
        except HTTPError as error:
            error.close()
            if error.code == 404:
                return None
            raise self._refusal(error.code) from None
        except (URLError, OSError) as error:
            reason = getattr(error, "reason", None) or error
            raise ServerAwayError(
                f"the schema registry {self._place} cannot be reached: {reason}."
            ) from error
        except ValueError as error:
            raise MasterError(f"{self._place} answers with no JSON: is it a registry?") from error
        if not isinstance(found, dict) or not isinstance(found.get("schema"), str):
            raise MasterError(f"{self._place} answers without a schema: is it a registry?")
        return found

    def _refusal(self, code: int) -> MasterError:
        if code in (401, 403):
            who = "nobody in particular" if self._user is None else repr(self._user)
            return MasterError(
                f"the schema registry {self._place} refuses {who} ({code}). Name the user in the "
                f"address (https://user@host:8081), and put the password into {PASSWORD}."
            )
        kind = ServerAwayError if code >= 500 or code in _AWAY else MasterError
        return kind(f"the schema registry {self._place} answers with an error ({code}).")
