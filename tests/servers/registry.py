"""A schema registry: Apicurio's, in memory, from what `make registry` fetches."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from tests.servers.process import Server

from penstock.spark.java import find_java


def program() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(os.environ.get("PENSTOCK_REGISTRY") or Path(cache) / "penstock" / "registry")
    found = next(folder.glob("*-runner.jar"), None)
    assert found is not None, "the schema registry is missing; `make registry` fetches it"
    return found


class SchemaRegistryServer(Server):
    """A registry that anybody may use, for this machine; schemas go with it."""

    def __init__(self) -> None:
        super().__init__("registry")
        # As with the broker, the jars may lie where an unprivileged user cannot look.
        jar = shutil.copytree(program().parent, self._server.folder / "program") / program().name
        self.address = f"http://127.0.0.1:{self._server.port}/apis/ccompat/v7"
        self._server.begin(
            [
                str(find_java() / "bin" / "java"),
                "-Xmx256m",
                "-XX:TieredStopAtLevel=1",
                "-Dquarkus.http.host=127.0.0.1",
                f"-Dquarkus.http.port={self._server.port}",
                "-jar",
                str(jar),
            ],
            lambda: self._ask("/subjects"),
        )

    def _ask(self, path: str, said: Any = None) -> Any:
        kind = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
        body = None if said is None else json.dumps(said).encode()
        with urlopen(Request(self.address + path, body, kind), timeout=10) as answer:
            return json.loads(answer.read())

    def register(self, subject: str, schema: dict[str, Any]) -> int:
        """The number that the registry gives a schema."""
        said = {"schema": json.dumps(schema), "schemaType": "AVRO"}
        return int(self._ask(f"/subjects/{subject}/versions", said)["id"])
