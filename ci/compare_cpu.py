"""Sets the tuned CPU kernels beside other libraries' and prints the README's table. Run by ci/compare_cpu.sh.

Everything runs in one process, on the given number of threads, in alternating rounds: in a round every implementation
gets the same share of time, the order is reversed from one round to the next, and an implementation's time in a round is
the median of its calls. Weights are rotated through copies that together exceed 256 MB, so they come from memory at
every call. A ratio is taken within a round and its median over the rounds is printed.

Ours run through the C interface of dispatch with the committed table, take A in f32, quantise and pack it within the
measured time, and write D in f32. Peers take the activation as they want it: bf16 (oneDNN through torch, zentorch; both
with packed weights, D in bf16), f32 (ggml, which quantises A within the measured time; onnxruntime; gemm; faer).
"""

import argparse
import ctypes as c
import json
import os
import statistics
import sys
import time

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--ours", required=True, help="libtilewright_capi.so")
parser.add_argument("--ggml", help="folder with libggml-base.so and libggml-cpu.so")
parser.add_argument("--crates", help="library of ci/cpu-peers")
parser.add_argument("--threads", type=int, default=1)
parser.add_argument("--shapes", default="4096x4096,14336x4096,4096x14336", help="N x K")
parser.add_argument("--m", default="1,4,8,16,32,128,512")
parser.add_argument("--rounds", type=int, default=5)
parser.add_argument("--share", type=float, default=0.1, help="seconds of an implementation in a round")
parser.add_argument("--only", default="", help="implementations to run, by their names' beginnings")
parser.add_argument("--json", help="file for all times")
options = parser.parse_args()
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"):
    os.environ[variable] = str(options.threads)

import numpy as np  # noqa: E402  (after the number of threads is set)

COPIES_BYTES = 256 << 20
FLOATS = c.POINTER(c.c_float)


def floats(array):
    return array.ctypes.data_as(FLOATS)


def copies(size):
    return max(2, -(-COPIES_BYTES // size))


class Ours:
    """The weights of the table `cpu-peers`, through the C interface."""

    FORMATS = {"bf16": 2.0, "fp8": 1.0, "mxfp6_bf16": 25 / 32, "mxfp6_int8": 25 / 32}

    def __init__(self, path):
        lib = c.CDLL(path)
        pointer, size = c.c_void_p, c.c_size_t
        for name, result, arguments in (
            ("tw_last_error", c.c_char_p, []),
            ("tw_engine_open", pointer, [c.c_char_p, size]),
            ("tw_engine_is_tuned_here", c.c_int32, [pointer]),
            ("tw_weight_load", pointer, [pointer, c.c_char_p, FLOATS, size]),
            ("tw_weight_free", None, [pointer]),
            ("tw_workspace_bytes", c.c_int32, [pointer, pointer, c.c_uint32, c.POINTER(size)]),
            ("tw_run", c.c_int32, [pointer, pointer, FLOATS, c.c_uint32, FLOATS, FLOATS, pointer, size, pointer]),
        ):
            getattr(lib, name).restype, getattr(lib, name).argtypes = result, arguments
        self.lib = lib
        self.engine = self.checked(lib.tw_engine_open(b"cpu-peers", 0))
        if not lib.tw_engine_is_tuned_here(self.engine):
            print("note: the table was not tuned on this kind of device", file=sys.stderr)

    def checked(self, result):
        if not result:
            sys.exit(self.lib.tw_last_error().decode())
        return result

    def implementations(self, n, k, weight):
        for tag, element_bytes in self.FORMATS.items():
            name = f"{n}x{k}.{tag}".encode()
            load = lambda: self.checked(self.lib.tw_weight_load(self.engine, name, floats(weight), n * k))
            yield f"tilewright {tag}", lambda load=load, b=element_bytes: (
                [load() for _ in range(copies(int(n * k * b)))],
                self.lib.tw_weight_free,
                self.call,
            )

    def call(self, handles, a):
        m, k = a.shape
        n = self.n
        d = np.empty((m, n), np.float32)
        size = c.c_size_t()
        if self.lib.tw_workspace_bytes(self.engine, handles[0], m, c.byref(size)) != 0:
            self.checked(0)
        workspace = c.create_string_buffer(max(1, size.value))
        def run(i):
            if self.lib.tw_run(self.engine, handles[i % len(handles)], floats(a), m, None, floats(d), workspace,
                               size, None) != 0:
                self.checked(0)
            return d
        return run


def torch_peers(n, k, weight):
    """oneDNN and ZenDNN with weights packed once, bf16 in and out."""
    import torch

    torch.set_num_threads(options.threads)
    torch.set_grad_enabled(False)
    bf16 = lambda a: torch.from_numpy(a).to(torch.bfloat16)

    def onednn():
        pack = lambda: torch.ops.mkldnn._reorder_linear_weight(bf16(weight), None)
        def call(handles, a):
            x = bf16(a)
            linear = torch.ops.mkldnn._linear_pointwise
            return lambda i: linear(x, handles[i % len(handles)], None, "none", [], "")
        return [pack() for _ in range(copies(n * k * 2))], lambda _: None, call

    yield "oneDNN bf16", onednn
    try:
        import zentorch  # noqa: F401
    except Exception as error:
        print(f"zentorch is left out: {error}", file=sys.stderr)
        return
    ops = torch.ops.zentorch

    def zen():
        pack = lambda: ops.zentorch_weight_prepack_for_linear(bf16(weight))
        def call(handles, a):
            x = bf16(a)
            return lambda i: ops.zentorch_linear_unary(x, handles[i % len(handles)], is_weight_prepacked=True)
        return [pack() for _ in range(copies(n * k * 2))], lambda _: None, call

    yield "zentorch bf16", zen


class Ggml:
    """ggml's matrix product on weights in its formats."""

    TYPES = {"Q8_0": (8, 34 / 32), "Q6_K": (14, 210 / 256), "MXFP4": (39, 17 / 32)}

    class Init(c.Structure):
        _fields_ = [("mem_size", c.c_size_t), ("mem_buffer", c.c_void_p), ("no_alloc", c.c_bool)]

    class Plan(c.Structure):
        _fields_ = [("work_size", c.c_size_t), ("work_data", c.c_void_p), ("n_threads", c.c_int), ("pool", c.c_void_p),
                    ("abort", c.c_void_p), ("abort_data", c.c_void_p), ("use_ref", c.c_bool)]

    def __init__(self, folder):
        c.CDLL(os.path.join(folder, "libggml-base.so"), mode=c.RTLD_GLOBAL)
        self.cpu = c.CDLL(os.path.join(folder, "libggml-cpu.so"), mode=c.RTLD_GLOBAL)
        self.base = c.CDLL(os.path.join(folder, "libggml-base.so"))
        p = c.c_void_p
        for name, result, arguments in (
            ("ggml_init", p, [Ggml.Init]),
            ("ggml_free", None, [p]),
            ("ggml_new_tensor_2d", p, [p, c.c_int, c.c_int64, c.c_int64]),
            ("ggml_get_data", p, [p]),
            ("ggml_mul_mat", p, [p, p, p]),
            ("ggml_new_graph", p, [p]),
            ("ggml_build_forward_expand", None, [p, p]),
            ("ggml_quantize_chunk", c.c_size_t, [c.c_int, FLOATS, p, c.c_int64, c.c_int64, c.c_int64, FLOATS]),
        ):
            getattr(self.base, name).restype, getattr(self.base, name).argtypes = result, arguments
        self.cpu.ggml_graph_plan.restype, self.cpu.ggml_graph_plan.argtypes = Ggml.Plan, [p, c.c_int, p]
        self.cpu.ggml_graph_compute.argtypes = [p, c.POINTER(Ggml.Plan)]
        self.cpu.ggml_cpu_init()

    def implementations(self, n, k, weight):
        for name, (number, element_bytes) in self.TYPES.items():
            yield f"ggml {name}", lambda number=number, b=element_bytes: self.make(n, k, weight, number, b)

    def make(self, n, k, weight, number, element_bytes):
        base = self.base
        size = int(n * k * element_bytes)
        count = copies(size)
        context = base.ggml_init(Ggml.Init(count * (size + 4096) + (1 << 20), None, False))
        first = base.ggml_new_tensor_2d(context, number, k, n)
        base.ggml_quantize_chunk(number, floats(weight), base.ggml_get_data(first), 0, n, k, None)
        tensors = [first]
        while len(tensors) < count:
            tensors.append(base.ggml_new_tensor_2d(context, number, k, n))
            c.memmove(base.ggml_get_data(tensors[-1]), base.ggml_get_data(first), size)

        def call(handles, a):
            m = a.shape[0]
            work = base.ggml_init(Ggml.Init(len(handles) * (m * (n + k) * 4 + (1 << 20)) + (1 << 20), None, False))
            calls = []
            for tensor in handles:
                x = base.ggml_new_tensor_2d(work, 0, k, m)
                c.memmove(base.ggml_get_data(x), a.ctypes.data, a.nbytes)
                product = base.ggml_mul_mat(work, tensor, x)
                graph = base.ggml_new_graph(work)
                base.ggml_build_forward_expand(graph, product)
                plan = self.cpu.ggml_graph_plan(graph, options.threads, None)
                memory = c.create_string_buffer(max(1, plan.work_size))
                plan.work_data = c.addressof(memory)
                calls.append((product, graph, plan, memory))
            def run(i):
                product, graph, plan, _ = calls[i % len(calls)]
                self.cpu.ggml_graph_compute(graph, c.byref(plan))
                return np.ctypeslib.as_array(c.cast(base.ggml_get_data(product), FLOATS), (m, n))
            run.close = lambda: base.ggml_free(work)
            return run

        return tensors, lambda _: None, call


class Crates:
    """The crates gemm and faer, f32."""

    def __init__(self, path):
        self.lib = c.CDLL(path)

    def implementations(self, n, k, weight):
        for name in ("gemm", "faer"):
            yield f"{name} f32", lambda name=name: self.make(n, k, weight, name)

    def make(self, n, k, weight, name):
        product = getattr(self.lib, f"peer_{name}")
        product.argtypes = [c.c_size_t] * 3 + [FLOATS] * 3
        def call(handles, a):
            d = np.empty((a.shape[0], n), np.float32)
            def run(i):
                product(a.shape[0], n, k, floats(a), floats(handles[i % len(handles)]), floats(d))
                return d
            return run
        return [weight.copy() for _ in range(copies(n * k * 4))], lambda _: None, call


def onnx_peers(n, k, weight):
    """onnxruntime's MatMulNBits: 8-bit weights in blocks of 32."""
    import onnx
    import onnxruntime as ort
    from onnx import TensorProto, helper

    blocks = weight.reshape(n, k // 32, 32)
    scale = np.maximum(np.abs(blocks).max(-1) / 127, 1e-30).astype(np.float32)
    codes = (np.clip(np.rint(blocks / scale[..., None]), -128, 127) + 128).astype(np.uint8)

    def make():
        node = helper.make_node(
            "MatMulNBits", ["A", "B", "S"], ["Y"], domain="com.microsoft",
            K=k, N=n, bits=8, block_size=32, accuracy_level=4,
        )
        graph = helper.make_graph(
            [node], "product",
            [helper.make_tensor_value_info("A", TensorProto.FLOAT, ["m", k])],
            [helper.make_tensor_value_info("Y", TensorProto.FLOAT, ["m", n])],
            [helper.make_tensor("B", TensorProto.UINT8, codes.shape, codes.tobytes(), raw=True),
             helper.make_tensor("S", TensorProto.FLOAT, [scale.size], scale.tobytes(), raw=True)],
        )
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)],
            ir_version=10,
        )
        settings = ort.SessionOptions()
        settings.intra_op_num_threads = options.threads
        blob = model.SerializeToString()
        sessions = [ort.InferenceSession(blob, settings) for _ in range(copies(n * k))]
        def call(handles, a):
            return lambda i: handles[i % len(handles)].run(None, {"A": a})[0]
        return sessions, lambda _: None, call

    yield "onnxruntime int8", make


def timed(run, share, first):
    """Median seconds of the calls that fit into the share, at least three; the copies go on from `first`."""
    times, end, i = [], time.perf_counter() + share, first
    while len(times) < 3 or time.perf_counter() < end:
        began = time.perf_counter()
        run(i)
        times.append(time.perf_counter() - began)
        i += 1
    return statistics.median(times), i


def wanted(name):
    return not options.only or any(name.startswith(prefix) for prefix in options.only.split(","))


def main():
    ours = Ours(options.ours)
    sources = [ours.implementations, torch_peers, onnx_peers]
    if options.ggml:
        sources.append(Ggml(options.ggml).implementations)
    if options.crates:
        sources.append(Crates(options.crates).implementations)
    sizes = [int(m) for m in options.m.split(",")]
    rng = np.random.default_rng(1)
    everything = []
    for shape in options.shapes.split(","):
        n, k = map(int, shape.split("x"))
        ours.n = n
        weight = rng.standard_normal((n, k), np.float32)
        made = {}
        for source in sources:
            try:
                for name, make in source(n, k, weight):
                    if wanted(name):
                        made[name] = make()
            except ImportError as error:
                print(f"left out: {error}", file=sys.stderr)
        for m in sizes:
            a = np.ascontiguousarray(rng.standard_normal((m, k), np.float32))
            reference = a @ weight.T
            runs = {}
            for name, (handles, _, call) in made.items():
                run = call(handles, a)
                found = run(0)
                found = found.float().numpy() if hasattr(found, "float") else np.asarray(found)
                error = np.abs(found - reference).mean() / np.abs(reference).mean()
                if not error < 0.15:
                    sys.exit(f"{name} at {shape}, M={m}: relative error {error}")
                run(1)
                runs[name] = run
            times = {name: [] for name in runs}
            next_copy = dict.fromkeys(runs, 2)
            for turn in range(options.rounds):
                order = list(runs) if turn % 2 == 0 else list(runs)[::-1]
                for name in order:
                    seconds, next_copy[name] = timed(runs[name], options.share, next_copy[name])
                    times[name].append(seconds)
            for name, seconds in times.items():
                everything.append({"shape": shape, "m": m, "name": name, "seconds": seconds})
                rate = 2 * m * n * k / statistics.median(seconds) / 1e9
                print(f"{shape:>11} M={m:<4} {name:22} {statistics.median(seconds) * 1e3:9.3f} ms {rate:7.0f} GFLOP/s",
                      flush=True)
            for run in runs.values():
                getattr(run, "close", lambda: None)()
        for handles, free, _ in made.values():
            for handle in handles:
                free(handle)
        del made
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(everything, file)
    summary(everything, sizes)


def ratio(everything, ours, peers, m):
    """Geometric mean over the shapes of: the best peer's time over ours, in the same round, median of the rounds."""
    logs = []
    for shape in {row["shape"] for row in everything}:
        rows = {row["name"]: row["seconds"] for row in everything if (row["shape"], row["m"]) == (shape, m)}
        rivals = [rows[name] for name in rows if any(name.startswith(peer) for peer in peers)]
        if ours not in rows or not rivals:
            return None
        best = min(rivals, key=statistics.median)
        logs.append(np.log(statistics.median(b / o for b, o in zip(best, rows[ours]))))
    return float(np.exp(np.mean(logs)))


def summary(everything, sizes):
    print(f"\nTimes of the best packed bf16 peer over ours, {options.threads} thread(s), geometric mean of the shapes:\n")
    print("| | " + " | ".join(f"M={m}" for m in sizes) + " |")
    print("|---" * (len(sizes) + 1) + "|")
    lines = [(tag, f"tilewright {tag}", ["oneDNN", "zentorch"]) for tag in Ours.FORMATS]
    lines += [(f"mxfp6_int8 over {peer}", "tilewright mxfp6_int8", [peer])
              for peer in ("ggml Q6_K", "ggml Q8_0", "ggml MXFP4", "onnxruntime")]
    lines += [("bf16 over gemm and faer (f32)", "tilewright bf16", ["gemm", "faer"])]
    for label, name, peers in lines:
        cells = [ratio(everything, name, peers, m) for m in sizes]
        if any(cells):
            print(f"| {label} | " + " | ".join("–" if x is None else f"{x:.2f}" for x in cells) + " |")


main()
