"""One linear layer through tilewright by ctypes: python3 gemm.py path/to/libtilewright_capi.so"""

import ctypes
import sys

c = ctypes


class Choice(c.Structure):
    _fields_ = [
        ("kernel_id", c.c_uint64),
        ("rung", c.c_int32),
        ("rank", c.c_uint32),
        ("distance", c.c_float),
        ("reserved", c.c_uint32),
        ("kernel", c.c_char * 256),
    ]


def load(path):
    lib = c.CDLL(path)
    floats, pointer, size = c.POINTER(c.c_float), c.c_void_p, c.c_size_t
    signatures = {
        "tw_abi_version": (c.c_uint32, []),
        "tw_last_error": (c.c_char_p, []),
        "tw_engine_open": (pointer, [c.c_char_p, size]),
        "tw_engine_free": (None, [pointer]),
        "tw_weight_load_unplanned": (
            pointer,
            [pointer, c.c_uint32, c.c_uint32, c.c_char_p, c.c_char_p, floats, size],
        ),
        "tw_weight_free": (None, [pointer]),
        "tw_workspace_bytes": (c.c_int32, [pointer, pointer, c.c_uint32, c.POINTER(size)]),
        "tw_run": (
            c.c_int32,
            [pointer, pointer, floats, c.c_uint32, floats, floats, pointer, size, c.POINTER(Choice)],
        ),
    }
    for name, (result, arguments) in signatures.items():
        getattr(lib, name).restype = result
        getattr(lib, name).argtypes = arguments
    assert lib.tw_abi_version() == 1
    return lib


def main():
    lib = load(sys.argv[1])

    def check(ok):
        if not ok:
            sys.exit(lib.tw_last_error().decode())

    m, n, k = 3, 32, 64
    value = lambda i: (i * 37 % 17 - 8) / 4
    weights = (c.c_float * (n * k))(*map(value, range(n * k)))
    x = (c.c_float * (m * k))(*(value(i + 5) for i in range(m * k)))
    y = (c.c_float * (m * n))()
    engine = lib.tw_engine_open(None, 0)
    check(engine)
    weight = lib.tw_weight_load_unplanned(engine, n, k, b"bf16", b"panel16", weights, n * k)
    check(weight)
    size, choice = c.c_size_t(), Choice()
    check(lib.tw_workspace_bytes(engine, weight, m, c.byref(size)) == 0)
    workspace = c.create_string_buffer(max(size.value, 1))
    check(lib.tw_run(engine, weight, x, m, None, y, workspace, size, c.byref(choice)) == 0)
    for row in range(m):
        for column in range(n):
            expected = sum(x[row * k + i] * weights[column * k + i] for i in range(k))
            assert abs(y[row * n + column] - expected) <= 1e-3, (row, column)
    print(choice.kernel.decode())
    lib.tw_weight_free(weight)
    lib.tw_engine_free(engine)


main()
