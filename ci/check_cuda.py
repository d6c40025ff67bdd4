"""Compiles the kernels that cuda_sources listed, and checks the assembler's report. See check_cuda.sh.

A kernel fails if it does not compile, spills, uses a stack, serialises its wgmma instructions, or needs more registers
than the list allows; its shared memory must fit a CTA.
"""
import ctypes, glob, pathlib, re, sys
from concurrent.futures import ThreadPoolExecutor

MOST_SHARED = 227 * 1024


def library():
    for folder in sys.path:
        for found in glob.glob(f"{folder}/nvidia/**/libnvrtc.so.*", recursive=True):
            return ctypes.CDLL(found)
    sys.exit("libnvrtc is not installed in this environment")


def compile(nvrtc, text, name, options):
    """The compiler's status and log."""
    program = ctypes.c_void_p()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), text, name.encode(), 0, None, None)
    options = [o.encode() for o in (*options, "--gpu-architecture=sm_90a", "--std=c++17", "--ptxas-options=-v")]
    status = nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
    size = ctypes.c_size_t()
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(program, log)
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return status, log.value.decode()


def faults(status, log, registers, shared):
    if status != 0:
        return [log.strip()]
    used = re.search(r"Used (\d+) registers", log)
    stack = re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", log)
    if not used or not stack:
        return ["the assembler's report has another form: " + log.strip()]
    found = []
    if int(used[1]) > registers:
        found.append(f"{used[1]} registers, at most {registers}")
    if any(int(bytes) for bytes in stack.groups()):
        found.append(stack[0])
    if "wgmma" in log and "serialized" in log:
        found.append("wgmma instructions are serialised")
    if shared > MOST_SHARED:
        found.append(f"{shared} bytes of shared memory")
    return found


def main():
    folder = pathlib.Path(sys.argv[1])
    nvrtc = library()

    def check(line):
        name, registers, shared, *defines = line.split()
        text = (folder / name).read_bytes()
        return line, faults(*compile(nvrtc, text, name, defines), int(registers), int(shared))

    lines = (folder / "kernels.txt").read_text().splitlines()
    with ThreadPoolExecutor() as pool:
        failed = [(line, found) for line, found in pool.map(check, lines) if found]
    for line, found in failed:
        print(line, *found, sep="\n    ")
    print(f"{len(lines) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
