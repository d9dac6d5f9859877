"""On what a run was made."""
import os
import platform
import subprocess

import torch

PREFIXES = ("NCCL_", "SYMM_", "TORCH_SYMM", "TORCH_NCCL", "NVSHMEM_", "CUDA_")


def driver():
    try:
        done = subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"], capture_output=True, text=True,
                              timeout=30, check=True)
        return done.stdout.split("\n")[0].strip()
    except (OSError, subprocess.SubprocessError) as error:
        return f"unknown ({error})"


def describe(found, build_info):
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    found["device"] = {"name": properties.name, "multiprocessors": properties.multi_processor_count, "memory": properties.total_memory,
                       "count": torch.cuda.device_count()}
    found["driver"] = driver()
    found["versions"] = {"CUDA": torch.version.cuda, "NCCL": ".".join(str(part) for part in torch.cuda.nccl.version()),
                         "PyTorch": torch.__version__, "Python": platform.python_version(), "symm": build_info}
    found["environment"] = {name: value for name, value in sorted(os.environ.items()) if name.startswith(PREFIXES)}
