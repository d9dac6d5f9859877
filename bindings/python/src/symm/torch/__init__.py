"""symm in PyTorch: operators for torch.compile, and a back end
of ``torch.distributed`` for tensors of CPU and CUDA. ::

    import symm.torch torch.distributed.init_process_group("cpu:symm,cuda:symm") # DDP,
    FSDP2, DTensor and all that is built on it

    symm.torch.use(group) # or without a process group: a
    symm.Group y = torch.ops.symm.all_reduce(x) # differentiable,
    under torch.compile(fullgraph=True), in CUDA graphs

`operators` lists the operators, `backend` what the back end can do. PyTorch 2.11 and later.
"""

from symm.torch.backend import ProcessGroup as ProcessGroup
from symm.torch.operators import forget as forget, group_of as group_of, use as use
