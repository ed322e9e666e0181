"""Whether brokers of Kafka can be reached, before Spark waits for them for a minute."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from penstock.errors import ServerAwayError
from penstock.pipeline.reading import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SECONDS = 5.0
_REFUSED = {
    "UnknownTopicOrPartition": "the brokers have no topic {topic!r}. Create it.",
    "TopicAuthorization": "this user may not read the topic {topic!r}.",
    "InvalidTopic": "{topic!r} cannot be a topic's name.",
}
"""What Kafka's client says of a topic, in our words; anything else the query will tell."""


def require_brokers(servers: str) -> None:
    """Raise unless one of the brokers takes a connection."""
    said = []
    for server in filter(None, (part.strip() for part in servers.split(","))):
        host, colon, port = server.rpartition(":")
        if not colon or not (port.isascii() and port.isdecimal() and int(port[:6]) < 65536):
            raise PipelineError(f"servers: {server!r} is no broker; write host:port.")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=_SECONDS).close()
        except UnicodeError as error:
            raise PipelineError(f"servers: {server!r} is no broker; write host:port.") from error
        except OSError as error:
            said.append(f"{server} ({error.strerror or error})")
        else:
            return
    raise ServerAwayError(f"no broker of Kafka can be reached: {', '.join(said) or 'none named'}.")


def require_topic(spark: SparkSession, servers: str, topic: str, options: dict[str, str]) -> None:
    """Raise where the brokers have no such topic, or this user may not see it."""
    asked = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .options(**{name: value for name, value in options.items() if name.startswith("kafka.")})
    )
    try:
        asked.load().rdd.getNumPartitions()  # asks for offsets, and reads nothing
    except Exception as error:  # noqa: BLE001 - whatever Kafka's client says, by Java
        said = next((why for word, why in _REFUSED.items() if word in str(error)), None)
        if said is not None:
            raise PipelineError(f"source.topic: {said.format(topic=topic)}") from None
