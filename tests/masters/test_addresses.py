"""A URI may carry a password: nothing that is shown has it."""

from __future__ import annotations

import os
import traceback
from pathlib import Path

import pytest

import penstock
from penstock.errors import MasterError
from penstock.masters.addresses import scrubbed, without_secrets

URIS = [
    "http://user:SECRET@host/x.arrow",
    "s3://AKIA:SECRET@bucket/x.arrow?secret_key=SECRET",
    "s3://bucket/x.arrow?session_token=SECRET&nothing=",
]


@pytest.mark.parametrize("uri", URIS)
def test_errors_do_not_tell(uri: str) -> None:
    with pytest.raises(MasterError) as told:
        penstock.open_master(uri)
    shown = "".join(traceback.format_exception(told.value))
    assert "SECRET" not in shown
    assert without_secrets(uri) in shown


def test_what_is_not_secret_stays() -> None:
    for plain in ("file:///data/r.arrow", "s3://bucket/r.arrow", "/data/a@b/r.arrow?x"):
        assert without_secrets(plain) == plain
    uri = "s3://me:word@b/r"
    assert scrubbed("no 'word' for s3://me:word@b/r", uri) == "no '***' for s3://***@b/r"


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(MasterError, match="is a pipe"):
        penstock.open_master(tmp_path / "pipe")


def test_a_folder_says_how_to_build_from_it(tmp_path: Path) -> None:
    with pytest.raises(MasterError, match=r"is a folder.*master build"):
        penstock.open_master(tmp_path)
