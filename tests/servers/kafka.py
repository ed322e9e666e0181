"""A broker of Kafka in one Java process (KRaft), from the jars that `make servers` fetches."""

from __future__ import annotations

import base64
import subprocess
import uuid
from collections.abc import Sequence

from tests.servers.process import Server, free_port, unprivileged

from penstock.spark.java import find_java

_SETTINGS = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={folder}/topics
num.partitions=2
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
"""


class KafkaBroker(Server):
    """A broker without passwords, for this machine."""

    def __init__(self) -> None:
        super().__init__("kafka")
        folder = self._server.folder
        self._jars = self._server.with_jars("broker")
        self._settings = folder / "broker.properties"
        self._settings.write_text(
            _SETTINGS.format(port=self.port, controller=free_port(), folder=folder)
        )
        name = base64.urlsafe_b64encode(b"p" + uuid.uuid4().bytes[1:]).decode().rstrip("=")
        self._run("kafka.tools.StorageTool", "format", "-t", name, "-c", str(self._settings))
        self.start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def _java(self, program: str, *arguments: str) -> list[str]:
        java = str(find_java() / "bin" / "java")
        quick = ["-Xmx512m", "-XX:TieredStopAtLevel=1", "-cp", f"{self._jars}/*"]
        return [java, *quick, program, *arguments]

    def _run(self, program: str, *arguments: str) -> None:
        self._server.run(*self._java(program, *arguments))

    def start(self) -> None:
        self._server.begin(self._java("kafka.Kafka", str(self._settings)), self.connect_once)

    def send(self, topic: str, lines: Sequence[str]) -> None:
        """Send each line as a value."""
        program = "org.apache.kafka.tools.ConsoleProducer"
        where = ("--bootstrap-server", self.address, "--topic", topic)
        done = subprocess.run(
            self._java(program, *where),
            input="\n".join(lines),
            text=True,
            capture_output=True,
            cwd=self._server.folder,
            check=False,
            **unprivileged(),
        )
        assert done.returncode == 0, done.stdout + done.stderr
