"""What was measured on, in words that name no machine in particular."""
import os
import platform
import re
from pathlib import Path


def text_of(path):
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def processor():
    cpuinfo = text_of("/proc/cpuinfo")
    name = re.search(r"^model name\s*:\s*(.+)$", cpuinfo, re.M)
    flags = re.search(r"^flags\s*:\s*(.+)$", cpuinfo, re.M)
    sets = [label for flag, label in (("avx512f", "AVX-512"), ("avx2", "AVX2"), ("asimd", "NEON")) if flags and flag in flags[1].split()]
    virtual = " (virtual machine)" if flags and "hypervisor" in flags[1].split() else ""
    return f"{os.cpu_count()} x {name[1] if name else platform.machine()}{', ' + sets[0] if sets else ''}{virtual}"


def caches():
    found = []
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        if text_of(index / "type") != "Instruction":
            found.append(f"L{text_of(index / 'level')} {text_of(index / 'size')}")
    return ", ".join(found)


def describe(build):
    cache = text_of(build / "CMakeCache.txt")
    compiler = re.search(r"^CMAKE_CXX_COMPILER:\w+=(.+)$", cache, re.M)
    version = ""
    for file in sorted(build.glob("CMakeFiles/*/CMakeCXXCompiler.cmake")):
        found = re.search(r'set\(CMAKE_CXX_COMPILER_VERSION "([^"]+)"\)', text_of(file))
        name = re.search(r'set\(CMAKE_CXX_COMPILER_ID "([^"]+)"\)', text_of(file))
        version = f"{name[1]} {found[1]}" if found and name else ""
    pages = re.search(r"\[(\w+)\]", text_of("/sys/kernel/mm/transparent_hugepage/enabled"))
    shared = re.search(r"\[(\w+)\]", text_of("/sys/kernel/mm/transparent_hugepage/shmem_enabled"))
    return {"processor": processor(), "caches": caches(), "kernel": platform.release().split("-")[0],
            "compiler": version or (Path(compiler[1]).name if compiler else ""),
            "huge pages": f"{pages[1] if pages else 'unknown'}, shared memory {shared[1] if shared else 'unknown'}"}
