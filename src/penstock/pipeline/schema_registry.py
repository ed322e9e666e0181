"""A schema registry: the schema that a value was written with, by its number."""

from __future__ import annotations

import base64
import json
import os
from http.client import HTTPException, IncompleteRead, RemoteDisconnected
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, unquote, urlsplit
from urllib.request import Request

from penstock.errors import MasterError, OptionError, ServerAwayError
from penstock.masters.addresses import names_a_secret
from penstock.masters.databases.hosts import require_hosts
from penstock.pipeline.bounded_answers import TooLongError, ask

PASSWORD = "PENSTOCK_REGISTRY_PASSWORD"
"""The variable of the environment that a password is in, on each machine that asks."""
_SECONDS = 10.0
"""For each read; a whole answer, with all that it is sent on to, has the total."""
_TOTAL_SECONDS = 20.0
_MOST_BYTES = 4 << 20
_NO_ADDRESS = "registry: is no address of a schema registry; write http://host:8081."
_ACCEPTED = "application/vnd.schemaregistry.v1+json, application/json"
_AWAY = (408, 429)


class SchemaRegistry:
    """Confluent's, or one that answers like it, such as Apicurio's under `/apis/ccompat/v7`. The
    address may name who asks, never the password.

    >>> SchemaRegistry("https://reader@registry.example:8081/")
    SchemaRegistry(https://registry.example:8081)
    """

    def __init__(self, address: str) -> None:
        try:
            parts = urlsplit(address)
        except ValueError:
            raise OptionError(_NO_ADDRESS) from None
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise OptionError(_NO_ADDRESS)
        user, _, host = parts.netloc.rpartition("@")
        is_secret = ":" in unquote(user) or "@" in parts.path or names_a_secret(parts.path)
        if is_secret or parts.query or parts.fragment:
            raise OptionError(
                "registry: the address has a password or parameters, which would travel in plans "
                f"and logs. Write https://user@host:8081; the password is read from {PASSWORD} in "
                "the environment, on each machine that connects."
            )
        if not parts.hostname or not address.isprintable() or " " in address:
            raise OptionError(_NO_ADDRESS)
        try:
            require_hosts(parts.scheme, host, ())
        except OptionError as error:
            raise OptionError(f"registry: {error}") from None
        self._user = unquote(user) if user else None
        self._place = f"{parts.scheme}://{host}{quote(parts.path.rstrip('/'), safe='/%')}"

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
            found = json.loads(ask(request, _SECONDS, _TOTAL_SECONDS, _MOST_BYTES))
        except HTTPError as error:
            error.close()
            if error.code == 404:
                return None
            raise self._refusal(error.code) from None
        except (IncompleteRead, RemoteDisconnected) as error:
            raise ServerAwayError(
                f"the schema registry {self._place} ends its answer too early."
            ) from error
        except OSError as error:
            reason = getattr(error, "reason", None) or error
            raise ServerAwayError(
                f"the schema registry {self._place} cannot be reached: {reason}."
            ) from error
        except TooLongError as error:
            raise MasterError(
                f"{self._place} answers with more than {_MOST_BYTES:,} bytes: is it a registry?"
            ) from error
        except HTTPException as error:
            raise MasterError(f"{self._place} answers with no HTTP: is it a registry?") from error
        except (ValueError, RecursionError) as error:
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
