"""An object store that speaks S3 (S3Proxy), from the jar that `make servers` fetches."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tests.servers.process import Server

from penstock.spark.java import find_java

READER, WORD = "reader", "word-of-reader"
_SETTINGS = f"""
s3proxy.authorization=aws-v2-or-v4
s3proxy.identity={READER}
s3proxy.credential={WORD}
s3proxy.endpoint=http://127.0.0.1:{{port}}
jclouds.provider=filesystem
jclouds.identity=none
jclouds.credential=none
jclouds.filesystem.basedir={{folder}}
"""


class ObjectStore(Server):
    """A store whose objects are the files of a folder: the folders in it are its buckets."""

    def __init__(self) -> None:
        super().__init__("store")
        folder = self._server.folder
        self._buckets = folder / "buckets"
        self._buckets.mkdir()
        self._settings = folder / "store.properties"
        self._settings.write_text(_SETTINGS.format(port=self.port, folder=self._buckets))
        (self._jar,) = self._server.with_jars("store").iterdir()
        self.start()

    @property
    def environment(self) -> dict[str, str]:
        """By which S3's clients find the store and may ask it."""
        return {
            "AWS_ACCESS_KEY_ID": READER,
            "AWS_SECRET_ACCESS_KEY": WORD,
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def put(self, source: Path, bucket: str) -> None:
        """A file, or a folder with all that is in it, as objects of a bucket; over older ones."""
        target = self._buckets / bucket / source.name
        target.parent.mkdir(exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, dirs_exist_ok=True)
        else:
            shutil.copy(source, target)
        if os.geteuid() == 0:
            for one in (target.parent, target, *target.rglob("*")):
                shutil.chown(one, "nobody", "nogroup")

    def start(self) -> None:
        java = [str(find_java() / "bin" / "java"), "-Xmx256m", "-XX:TieredStopAtLevel=1"]
        settings = ["--properties", str(self._settings)]
        self._server.begin([*java, "-jar", str(self._jar), *settings], self.connect_once)
