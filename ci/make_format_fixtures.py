#!/usr/bin/env python3
"""Makes kernels/tests/fixtures: what the number formats have to do, by an implementation that is not ours.

Codes and values come from the PyPI package ml_dtypes; scales, rotation and packing are written here in numpy, after the
specifications and not after the Rust code. To run it:

    python3 -m venv /tmp/fixtures && /tmp/fixtures/bin/pip install ml_dtypes==0.6.0 numpy==2.4.6
    /tmp/fixtures/bin/python ci/make_format_fixtures.py

It overwrites the fixtures; without a change here or in the pinned packages the result is the same byte for byte. What
ml_dtypes does not define as we do is set explicitly below: it does not saturate (a value that is too large becomes NaN
or infinity), so values are clipped to the largest finite one first; bf16 is left as it is, since it rounds to infinity
as IEEE 754 does; and NaN in FP6 and FP4, which have none, is the code of the largest positive number.
"""

import pathlib
import sys
import zlib

import ml_dtypes
import numpy as np

PINNED = {"ml_dtypes": "0.6.0", "numpy": "2.4.6"}
FIXTURES = pathlib.Path(__file__).resolve().parent.parent / "kernels" / "tests" / "fixtures"
HEADER = "# Made by ci/make_format_fixtures.py with ml_dtypes %(ml_dtypes)s and numpy %(numpy)s. Do not edit.\n" % PINNED

# name: (dtype, bits, has NaN)
ELEMENTS = {
    "bf16": (ml_dtypes.bfloat16, 16, True),
    "fp8_e4m3": (ml_dtypes.float8_e4m3fn, 8, True),
    "fp8_e4m3fnuz": (ml_dtypes.float8_e4m3fnuz, 8, True),
    "fp8_e5m2": (ml_dtypes.float8_e5m2, 8, True),
    "mxfp8": (ml_dtypes.float8_e4m3fn, 8, True),
    "mxfp6_e2m3": (ml_dtypes.float6_e2m3fn, 6, False),
    "mxfp6_e3m2": (ml_dtypes.float6_e3m2fn, 6, False),
    "mxfp4": (ml_dtypes.float4_e2m1fn, 4, False),
    "mxint8": (np.int8, 8, False),
}
EMAX = {"mxfp8": 8, "mxfp6_e2m3": 2, "mxfp6_e3m2": 4, "mxfp4": 2, "mxint8": 0}

# Low halves of the f32 inputs: the bf16 value, its neighbours, and the midpoint to the next with its neighbours.
LOW_HALVES = (0x0000, 0x0001, 0x7FFF, 0x8000, 0x8001, 0xFFFF)


def code_type(bits):
    return np.uint16 if bits == 16 else np.uint8


def largest(name):
    return np.float32(127 / 64) if name == "mxint8" else np.float32(ml_dtypes.finfo(ELEMENTS[name][0]).max)


def decode(name):
    """The f32 of every code."""
    dtype, bits, _ = ELEMENTS[name]
    if name == "mxint8":  # Two's complement in steps of 2^-6: section 5.3.4 of the MX specification.
        return np.arange(256).astype(np.uint8).view(np.int8).astype(np.float32) / np.float32(64)
    return np.arange(1 << bits).astype(code_type(bits)).view(dtype).astype(np.float32)


def encode(name, values):
    """Codes of f32 values, saturating except in bf16."""
    dtype, bits, has_nan = ELEMENTS[name]
    clipped = values if name == "bf16" else np.clip(values, -largest(name), largest(name))
    if name == "mxint8":
        steps = np.rint(np.where(np.isnan(values), largest(name), clipped).astype(np.float64) * 64)
        return steps.astype(np.int8).view(np.uint8)
    codes = clipped.astype(dtype).view(code_type(bits))
    if not has_nan:
        top = np.array([largest(name)], np.float32).astype(dtype).view(code_type(bits))[0]
        codes = np.where(np.isnan(values), top, codes)
    return codes


def f32_bits(values):
    """Bits of f32 values, with every NaN as the quiet NaN of its sign."""
    bits = np.asarray(values, np.float32).view(np.uint32)
    return np.where(np.isnan(values), (bits & 0x80000000) | 0x7FC00000, bits)


def write(name, lines):
    text = HEADER + "\n".join(lines) + "\n"
    (FIXTURES / name).write_text(text, newline="\n")


def make_decode():
    """decode.csv: format, code, bits of its value; for bf16 the CRC-32 of all values, little-endian."""
    lines = ["format,code,f32"]
    for name in ELEMENTS:
        bits = f32_bits(decode(name))
        if name == "bf16":
            lines.append("bf16,crc32,%08x" % zlib.crc32(bits.astype("<u4").tobytes()))
            continue
        lines += ["%s,%02x,%08x" % (name, code, value) for code, value in enumerate(bits)]
    write("decode.csv", lines)


def make_encode():
    """encode.csv: runs of inputs that share a code: format, bits of the first input, code.

    The inputs are all high halves in ascending order, each with LOW_HALVES in order. For bf16, where every input starts
    a run, the CRC-32 of all codes, little-endian.
    """
    high = np.arange(1 << 16, dtype=np.uint32) << 16
    bits = (high[:, None] | np.array(LOW_HALVES, np.uint32)[None, :]).ravel()
    lines = ["format,first,code"]
    for name in ELEMENTS:
        codes = encode(name, bits.view(np.float32))
        if name == "bf16":
            lines.append("bf16,crc32,%08x" % zlib.crc32(codes.astype("<u2").tobytes()))
            continue
        starts = np.flatnonzero(np.concatenate([[True], codes[1:] != codes[:-1]]))
        lines += ["%s,%08x,%02x" % (name, bits[start], codes[start]) for start in starts]
    write("encode.csv", lines)


def make_e8m0():
    """e8m0.csv: code, bits of its f32 value."""
    values = np.arange(256, dtype=np.uint8).view(ml_dtypes.float8_e8m0fnu).astype(np.float32)
    lines = ["code,f32"] + ["%02x,%08x" % pair for pair in enumerate(f32_bits(values))]
    write("e8m0.csv", lines)


def hadamard32():
    """The Sylvester matrix of +1 and -1: H[i, j] = (-1)^popcount(i & j)."""
    i = np.arange(32)
    return np.array([[1 - 2 * (bin(a & b).count("1") % 2) for b in i] for a in i], np.float64)


def rotate(values, rule):
    """Rotated blocks. Only for inputs whose sums of 32 are exact, so that no order of additions is implied."""
    blocks = values.astype(np.float64).reshape(-1, 32)
    if rule == "aiter":
        blocks = blocks.astype(np.float32).astype(ml_dtypes.bfloat16).astype(np.float64)
        factor = np.float64(np.float32(1 / np.sqrt(32)).astype(ml_dtypes.bfloat16))
        exact = (blocks * factor) @ hadamard32()
        rotated = exact.astype(np.float32)
        assert (rotated == exact).all()
    else:
        exact = blocks @ hadamard32()
        assert (exact.astype(np.float32) == exact).all()
        rotated = exact.astype(np.float32) * np.float32(1 / np.sqrt(32))
    return rotated.reshape(values.shape)


def aiter_codes(scaled):
    """AITER's E2M3 codes: half away from zero, by f32 arithmetic as its Triton kernel has it."""
    magnitude = np.minimum(np.abs(scaled), np.float32(7.5))
    steps = np.select([magnitude < 2, magnitude < 4], [8, 4], 2).astype(np.float32)
    base = np.select([magnitude < 2, magnitude < 4], [0, 8], 16)
    codes = np.floor(magnitude * steps + np.float32(0.5)).astype(np.int64) + base
    return (codes + 32 * (scaled < 0)).astype(np.uint8)


def quantise_mx(name, values, rule):
    """E8M0 scales and codes of whole blocks, after section 6.3 of the MX specification or AITER's packer."""
    blocks = values.reshape(-1, 32)
    finite = np.isfinite(blocks).all(axis=1)
    amax = np.where(finite, np.abs(blocks).max(axis=1), 0).astype(np.float64)
    floored = np.maximum(amax, np.float64(1e-30)) if rule == "aiter" else amax
    # frexp gives a fraction in [1/2, 1).
    exponent = np.frexp(floored)[1] - 1 - EMAX[name]
    exponent = np.where(amax > 0, np.clip(exponent, -127, 127), 0)
    scales = np.where(finite, exponent + 127, 255).astype(np.uint8)
    clean = np.where(finite[:, None], blocks, 0).astype(np.float64)
    scaled = np.ldexp(clean, -exponent[:, None]).astype(np.float32)
    codes = aiter_codes(scaled) if rule == "aiter" else encode(name, scaled)
    return scales, codes.reshape(values.shape)


def quantise_fp8(name, values, scaling):
    """f32 scales and codes: amax / largest, never subnormal; what is not finite is NaN and not part of amax."""
    finite = np.isfinite(values)
    magnitude = np.where(finite, np.abs(values), np.float32(0))
    amax = magnitude.max(axis=1, keepdims=True) if scaling == "channel" else magnitude.max(keepdims=True)
    scales = np.maximum(amax / largest(name), np.finfo(np.float32).tiny).astype(np.float32)
    scales = np.where(amax == 0, np.float32(1), scales)
    scaled = np.where(finite, values, np.float32("nan")) / scales
    return scales.ravel(), encode(name, scaled)


def pack(name, codes):
    """Bytes of each row: one little-endian bit stream."""
    bits = ELEMENTS[name][1]
    wide = np.asarray(codes, "<u2")[..., None].view(np.uint8)
    stream = np.unpackbits(wide, axis=-1, bitorder="little")[..., :bits]
    return np.packbits(stream.reshape(len(codes), -1), axis=1, bitorder="little")


def awkward_matrix():
    """8 rows of 256: random blocks of every magnitude, with the cases that go wrong first."""
    rng = np.random.default_rng(20240507)
    blocks = rng.standard_normal((64, 32)).astype(np.float32)
    blocks *= np.exp2(rng.integers(-40, 40, (64, 1))).astype(np.float32)
    blocks[rng.random((64, 32)) < 0.05] *= np.float32(50)
    blocks[0] = 0
    blocks[1] = -0.0
    blocks[2] = rng.standard_normal(32) * 1e-40  # subnormal throughout
    blocks[3] = rng.standard_normal(32) * 1e38
    blocks[4, 7] = np.finfo(np.float32).max
    blocks[5] = np.float32(2) ** np.arange(-16, 16)
    blocks[6] = np.nextafter(np.float32(2) ** np.arange(-16, 16), np.float32(0), dtype=np.float32)
    blocks[7] = np.arange(32) / 8  # every E2M3 step of the lowest binades, amax just under 4
    blocks[8] = np.arange(-16, 16) / 16 + np.float32(1 / 32)  # midpoints
    blocks[9] = 0
    blocks[9, 3] = np.float32(1e-45)  # the smallest f32
    blocks[10] = np.float32(7.75)  # past the largest E2M3 element under a scale of 1
    blocks[11, :8] = [0.0625, -0.0625, 0.1875, -0.1875, 0.03, -0.03, 1e-9, -1e-9]
    blocks[11, 8:] = 4
    blocks[12] = np.float32(0.49999997) / 8  # one half, less one unit in the last place, of the first step
    blocks[12, 0] = 4
    blocks[13] = rng.standard_normal(32) * 1e-32  # below AITER's 1e-30
    blocks[56, 5] = np.inf
    blocks[57, 6] = np.nan
    blocks[58, 7] = -np.inf
    return blocks.reshape(8, 256)


def integer_matrix():
    """4 rows of 64 small integers, whose rotation is exact, times a power of two for each row."""
    rng = np.random.default_rng(7)
    values = rng.integers(-100, 101, (4, 64)).astype(np.float32)
    values[0, :32] = 0
    values[0, 3] = 100  # an outlier, which the rotation spreads
    return values * np.exp2(np.array([[0], [-9], [17], [-3]])).astype(np.float32)


def make_quantize():
    """quantize.txt: an input of f32 bits, and the cases made of it, scales and packed codes a row a line."""
    lines = []

    def put(values, rotated):
        lines.append("input %d %d" % values.shape)
        lines.extend("".join("%08x" % bits for bits in row) for row in values.view(np.uint32))
        cases = [(name, "block32", "ocp") for name in EMAX] + [("mxfp6_e2m3", "block32", "aiter")]
        cases += [
            (name, scaling, "ocp")
            for name in ("fp8_e4m3", "fp8_e4m3fnuz", "fp8_e5m2")
            for scaling in ("tensor", "channel")
        ]
        cases.append(("bf16", "none", "ocp"))
        for name, scaling, rule in cases:
            given = rotate(values, rule) if rotated else values
            if scaling == "block32":
                scales, codes = quantise_mx(name, given, rule)
                scales = "".join("%02x" % scale for scale in scales)
            elif scaling == "none":
                scales, codes = "-", encode(name, given)
            else:
                scales, codes = quantise_fp8(name, given, scaling)
                scales = "".join("%08x" % bits for bits in scales.view(np.uint32))
            lines.append("case %s %s %s %s" % (name, scaling, rule, "hadamard" if rotated else "plain"))
            lines.append(scales)
            lines.extend(bytes(row).hex() for row in pack(name, codes))

    put(awkward_matrix(), False)
    put(integer_matrix(), True)
    write("quantize.txt", lines)


def main():
    found = {"ml_dtypes": ml_dtypes.__version__, "numpy": np.__version__}
    if found != PINNED:
        sys.exit("this script is pinned to %s, found %s" % (PINNED, found))
    FIXTURES.mkdir(parents=True, exist_ok=True)
    np.seterr(over="ignore", under="ignore", invalid="ignore")
    make_decode()
    make_encode()
    make_e8m0()
    make_quantize()


if __name__ == "__main__":
    main()
