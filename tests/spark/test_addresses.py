"""What is said of a master on Spark has no password, whatever was written."""

from __future__ import annotations

import pytest
from tests.masters.test_secrets import DATABASES

from penstock.errors import PenstockError
from penstock.spark.reaching import Address, reference

pytestmark = pytest.mark.one_spark


@pytest.mark.parametrize("address", [*DATABASES, "postgresql://u:s3cret@h/\0?table=t"])
def test_nothing_is_told(address: str) -> None:
    try:
        shown = repr(reference(address))
    except PenstockError as error:
        shown = repr(error)
    assert "s3cret" not in shown + repr(Address(address)) + str(Address(address))


def test_a_name_has_no_key_of_a_file_system() -> None:
    for address in ("s3://KEY:s3cret@bucket?key=id", "s3://KEY:s3cret@bucket"):
        assert "s3cret" not in Address(address).name + repr(Address(address))
