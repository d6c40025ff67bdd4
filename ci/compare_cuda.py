#!/usr/bin/env python3
"""Compares a CUDA table's choices with torch and cuBLASLt on the GPU of this machine. Run by hand; CI has no GPU.

    python3 ci/compare_cuda.py BENCH TABLE.toml [--ms 1,16,64,256,4096] [--out DIR]

BENCH is the example cuda_bench (`cargo build --release -p tilewright --example cuda_bench`): it times what dispatch
chooses, and all algorithms that cuBLASLt has. torch runs after it on the same shapes. All are timed cache-cold: replays of
a CUDA graph whose launches rotate through copies of the weight that together exceed three times the L2, median of nine.

Columns, in microseconds: the table's choice (with the quantisation of its activation, if it has one); torch.matmul in
bf16; torch._scaled_mm tensor-wise and row-wise, which get activations that are quantised already; cuBLASLt's fastest bf16
algorithm; its FP8 with scales for each token and channel, without and with the quantisation. Below, whole passes: sums
over the weights times their counts; the best library path is the least of those sums. DIR gets compare.csv.
"""
import argparse, csv, pathlib, statistics, subprocess, sys

L2_BYTES = 60 << 20
PATHS = ["torch_bf16", "torch_fp8_tensor", "torch_fp8_row", "lt_bf16", "lt_fp8_row", "lt_fp8_row_quantised"]


def timed(call, copies):
    """Microseconds of a launch."""
    import torch

    launches = max(copies, 16)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for i in range(3):
            call(i % copies)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for i in range(launches):
            call(i % copies)
    samples = []
    for _ in range(9):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        graph.replay()  # keeps the device busy while the host submits the rest
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        samples.append(begin.elapsed_time(end) * 1e3 / launches)
    return statistics.median(samples)


def copies(size):
    return max(2, -(-3 * L2_BYTES // size))


def torch_times(ms, n, k):
    """For each M, microseconds of torch.matmul in bf16 and of _scaled_mm tensor-wise and row-wise."""
    import torch

    times = {}
    count = copies(n * k * 2)
    weights = [torch.randn(n, k, device="cuda", dtype=torch.bfloat16) for _ in range(count)]
    for m in ms:
        a = torch.randn(m, k, device="cuda", dtype=torch.bfloat16)
        out = [torch.empty(m, n, device="cuda", dtype=torch.bfloat16) for _ in range(count)]
        times[m] = [timed(lambda i: torch.matmul(a, weights[i].t(), out=out[i]), count)]
        del out
    del weights
    count = copies(n * k)
    w8 = [torch.randn(n, k, device="cuda", dtype=torch.bfloat16).to(torch.float8_e4m3fn) for _ in range(count)]
    one = torch.ones((), device="cuda")
    for m in ms:
        padded = max(m, 16)  # _scaled_mm takes no fewer rows
        a8 = torch.randn(padded, k, device="cuda").to(torch.float8_e4m3fn)
        row, column = torch.ones(padded, 1, device="cuda"), torch.ones(1, n, device="cuda")
        for sa, sb in ((one, one), (row, column)):
            call = lambda i: torch._scaled_mm(a8, w8[i].t(), scale_a=sa, scale_b=sb, out_dtype=torch.bfloat16)
            times[m].append(timed(call, count))
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bench")
    parser.add_argument("table")
    parser.add_argument("--ms", default="1,16,64,256,4096")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("."))
    options = parser.parse_args()
    ms = [int(m) for m in options.ms.split(",")]
    ours_csv = options.out / "ours.csv"
    ours_csv.unlink(missing_ok=True)
    subprocess.run([options.bench, options.table, options.ms, ours_csv], check=True, stdout=subprocess.DEVNULL)
    rows, passes, torch_of = [], {m: [0.0] * (1 + len(PATHS)) for m in ms}, {}
    with open(ours_csv, newline="") as file:
        for line in file:
            name, count, m, n, k, ours, lt_bf16, lt_fp8, lt_fp8_snapped, rung, config = line.strip().split(",", 10)
            count, m, n, k = int(count), int(m), int(n), int(k)
            if (n, k) not in torch_of:
                torch_of[n, k] = torch_times(ms, n, k)
            times = [float(ours), *torch_of[n, k][m], float(lt_bf16), float(lt_fp8), float(lt_fp8_snapped)]
            rows.append([name, count, m, n, k, *(round(us, 2) for us in times), rung, config])
            passes[m] = [total + count * us for total, us in zip(passes[m], times)]
    columns = ["weight", "count", "m", "n", "k", "ours", *PATHS, "rung", "config"]
    with open(options.out / "compare.csv", "w", newline="") as file:
        csv.writer(file).writerows([columns, *rows])
    layout = "{:22} {:>5} {:>6} {:>6} {:>9}" + " {:>10}" * len(PATHS) + "  {}"
    short = [path.replace("quantised", "q").replace("tensor", "t") for path in PATHS]
    print(layout.format("weight", "m", "n", "k", "ours us", *(s[-10:] for s in short), "kernel"))
    for name, _, m, n, k, *times, rung, config in rows:
        print(layout.format(name, m, n, k, *times, config.split("@")[0]))
    print("\nwhole pass, ms; ratio of the best library path to ours (FP8 paths without the quantisation)")
    for m, totals in passes.items():
        best = min(range(1, len(totals)), key=lambda i: totals[i])
        print(
            f"M={m:<6} ours {totals[0] / 1e3:8.3f}   "
            + "  ".join(f"{path} {total / 1e3:.3f}" for path, total in zip(PATHS, totals[1:]))
            + f"   best {PATHS[best - 1]} {totals[best] / totals[0]:.2f}x"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
