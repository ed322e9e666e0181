"""Addresses as they may be shown: a URI can carry a password or a key."""

from __future__ import annotations

import re

_HIDDEN = "***"
_USER = re.compile(r"(://)([^/?#@]*)@")
_VALUE = re.compile(r"([?&][^=&#]*=)([^&#]*)")


def without_secrets(uri: str) -> str:
    """The URI with who asks, and all values of its query, left out.

    >>> without_secrets("s3://key:secret@bucket/r.arrow?secret_key=top&region=x")
    's3://***@bucket/r.arrow?secret_key=***&region=***'
    """
    return _VALUE.sub(rf"\1{_HIDDEN}", _USER.sub(rf"\1{_HIDDEN}@", uri))


def scrubbed(text: object, uri: str) -> str:
    """A text that somebody else wrote about the URI, without what is secret in it."""
    said = str(text).replace(uri, without_secrets(uri))
    user = _USER.search(uri)
    parts = [value for _, value in _VALUE.findall(uri)]
    parts += [] if user is None else [user[2], *user[2].split(":")]
    for part in sorted(filter(None, parts), key=len, reverse=True):
        said = said.replace(part, _HIDDEN)
    return said
