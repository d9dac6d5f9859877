"""The file of a run."""
import json
import os
import platform
import subprocess

FORMAT = 2
METHOD = ("Ways take turns in one process a rank. A graph of `calls` calls is replayed between two events, after one more that lines the "
          "ranks up. A time is the median of the turns on the slowest rank, of one call, in microseconds. Results are checked.")
PREFIXES = ("NCCL_", "SYMM_", "TORCH_SYMM", "TORCH_NCCL", "NVSHMEM_", "CUDA_")


def new(world, date, settings):
    return {"format": FORMAT, "date": date, "world": world, "device": {}, "driver": "", "versions": {}, "environment": {},
            "settings": settings, "method": METHOD, "unavailable": {}, "errors": [], "complete": False, "seconds": 0, "rows": []}


def path(folder, found):
    return os.path.join(folder, found["settings"]["name"] + ".json")


def write(folder, found):
    """Whole or not at all, since a run may be cut off."""
    os.makedirs(folder, exist_ok=True)
    name = path(folder, found)
    with open(name + ".part", "w", encoding="utf-8") as file:
        json.dump(found, file)
        file.write("\n")
    os.replace(name + ".part", name)
    return name


def read(name):
    with open(name, encoding="utf-8") as file:
        found = json.load(file)
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise ValueError(f"{name}: not results of format {FORMAT}")
    return found


def driver():
    try:
        done = subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"], capture_output=True, text=True,
                              timeout=30, check=True)
        return done.stdout.split("\n")[0].strip()
    except (OSError, subprocess.SubprocessError) as error:
        return f"unknown ({error})"


def describe(found, build_info):
    """On what the run was made."""
    import torch

    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    found["device"] = {"name": properties.name, "multiprocessors": properties.multi_processor_count, "memory": properties.total_memory,
                       "count": torch.cuda.device_count()}
    found["driver"] = driver()
    found["versions"] = {"CUDA": torch.version.cuda, "NCCL": ".".join(str(part) for part in torch.cuda.nccl.version()),
                         "PyTorch": torch.__version__, "Python": platform.python_version(), "symm": build_info}
    found["environment"] = {name: value for name, value in sorted(os.environ.items()) if name.startswith(PREFIXES)}
