"""Fills, and what puts and gets refuse."""

import math

import numpy as np
import pytest

import symm


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("f32", 1.5),
        ("i32", -7),
        ("u32", 2**32 - 1),
        ("f16", 0.25),
        ("i8", -3),
        ("u8", 200),
        ("bf16", 3.0),
        ("f64", 0),
        ("f8e4m3", 0),
    ],
)
def test_fill(alone, dtype, value):
    array = alone.empty(16, dtype)
    array.view("u8").fill(255)
    assert (array.view("u8").numpy() == 255).all()
    array[4:12].fill(value)
    seen = array.numpy().astype(np.float64)
    assert (seen[4:12] == value).all()
    assert (array.view("u8").numpy()[: 4 * array.itemsize] == 255).all()
    assert (array.view("u8").numpy()[12 * array.itemsize :] == 255).all()


def test_fill_says_what_it_cannot_do(alone):
    with pytest.raises(symm.UnsupportedError, match="32-bit"):
        alone.empty(4, "f64").fill(1.5)
    with pytest.raises(symm.UnsupportedError, match="f8e5m2"):
        alone.empty(4, "f8e5m2").fill(1.5)
    with pytest.raises(symm.InvalidArgumentError, match="whole 32-bit words"):
        alone.empty(3, "u8").fill(1)


def test_bf16_is_rounded_to_nearest_even():
    for value in (1.0, 1.00390625, 1.01171875, -3.1415926, 1e30, math.inf, 65280.5):
        import ml_dtypes

        expected = np.array(value).astype(np.float32).astype(ml_dtypes.bfloat16).tobytes()
        assert symm.array.element_bytes(value, symm.bf16) == expected, value
    assert np.isnan(
        np.frombuffer(symm.array.element_bytes(math.nan, symm.bf16), "<u2")
        .view("V2")
        .view(__import__("ml_dtypes").bfloat16)
        .astype(float)
    )


def test_what_does_not_fit_is_refused(alone):
    array = alone.empty(8)
    with pytest.raises(symm.InvalidArgumentError, match="more than"):
        array[4:].put(np.ones(5, np.float32), 0)
    with pytest.raises(symm.InvalidArgumentError, match="read-only"):
        array.get(0, bytes(4))
