"""Rows become structs and structs become rows without loss, through a real table."""

import enum
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from terracrew.errors import Damaged
from terracrew.server.db import Database, Tx
from terracrew.server.db.statements.mapping import row_to, rows_to, to_params


class Status(enum.StrEnum):
    QUEUED = "QUEUED"
    RUNNING = "RUNNING"


class Circle(msgspec.Struct, frozen=True, tag="circle"):
    radius: float


class Square(msgspec.Struct, frozen=True, tag="square"):
    side: int


class Sample(msgspec.Struct, frozen=True):
    id: str
    status: Status
    count: Annotated[int, msgspec.Meta(ge=0)]
    ratio: float
    flag: bool
    made_at: datetime
    ended_at: datetime | None
    body: bytes
    tags: tuple[str, ...]
    inputs: dict[str, str | int | bool | None]
    shape: Circle | Square | None
    anything: Any = None


class Holder(msgspec.Struct, frozen=True):
    inputs: dict[str, str | int | bool | None]


SAMPLES = [
    Sample(
        "a",
        Status.RUNNING,
        3,
        0.5,
        True,
        datetime(2024, 2, 29, 12, 0, 0, 123456, UTC),
        None,
        b"\x00\xff",
        ("x", 'y"z'),
        {"text": "1", "number": 1, "yes": True, "no": None, "null": "null"},
        Circle(1.5),
        [1, {"a": "ü"}],
    ),
    Sample(
        "null",
        Status.QUEUED,
        0,
        2.0,
        False,
        datetime(1970, 1, 1, tzinfo=UTC),
        datetime(2099, 1, 1, tzinfo=UTC),
        b"",
        (),
        {},
        None,
    ),
]


async def test_a_struct_survives_the_round_trip_through_either_database(database: Database) -> None:
    async def create(tx: Tx) -> None:
        await tx.run(
            """CREATE TABLE samples (
                   id text PRIMARY KEY, status text NOT NULL, count bigint NOT NULL, ratio double precision NOT NULL,
                   flag boolean NOT NULL, made_at double precision NOT NULL, ended_at double precision,
                   body bytea NOT NULL, tags text NOT NULL,
                   inputs text NOT NULL, shape text, anything text, extra text DEFAULT 'ignored'
               )"""
        )
        for sample in SAMPLES:
            await tx.run(
                """INSERT INTO samples
                       (id, status, count, ratio, flag, made_at, ended_at, body, tags, inputs, shape, anything)
                   VALUES (:id, :status, :count, :ratio, :flag, :made_at, :ended_at, :body, :tags, :inputs, :shape,
                       :anything)""",
                **to_params(sample),
            )

    async def read(tx: Tx) -> list[Sample]:
        return rows_to(Sample, await tx.all("SELECT * FROM samples ORDER BY id"))

    await database.write(create)
    found = await database.read(read)
    assert found == SAMPLES
    assert type(found[0].flag) is bool
    assert found[0].made_at.tzinfo is not None


@given(st.dictionaries(st.text(), st.one_of(st.text(), st.integers(-(2**53), 2**53), st.booleans(), st.none())))
def test_values_inside_json_are_never_coerced(inputs: dict[str, str | int | bool | None]) -> None:
    again = row_to(Holder, to_params(Holder(inputs)))
    assert msgspec.json.encode(again.inputs) == msgspec.json.encode(inputs)


def test_only_the_named_fields_become_parameters() -> None:
    assert to_params(SAMPLES[0], "status", "made_at", "tags") == {
        "status": "RUNNING",
        "made_at": 1709208000.123456,
        "tags": '["x","y\\"z"]',
    }


def test_a_row_that_does_not_fit_says_which_column() -> None:
    row = {**to_params(SAMPLES[0]), "status": "ASLEEP"}
    with pytest.raises(Damaged, match=r"the stored sample a cannot be read: .*\$\.status"):
        row_to(Sample, row)
