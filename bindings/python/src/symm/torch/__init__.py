"""symm in PyTorch: a back end of ``torch.distributed``, and operators for torch.compile.

The back end is for tensors of the CPU and of CUDA. DDP, FSDP2, DTensor and all other packages
over ``torch.distributed`` use it::

    import symm.torch
    torch.distributed.init_process_group("cpu:symm,cuda:symm")

The operators need no process group. They are differentiable, and work under
``torch.compile(fullgraph=True)`` and in CUDA graphs::

    symm.torch.use(group)  # a symm.Group
    y = torch.ops.symm.all_reduce(x)

`symm.torch.backend` says what the back end can do, `symm.torch.operators` lists the operators.
PyTorch 2.11 or later is needed.
"""

from symm.torch.backend import ProcessGroup as ProcessGroup
from symm.torch.bundles import Tensors as Tensors, load as load, share as share
from symm.torch.memory import (
    collect_on_oom as collect_on_oom,
    lend_cache as lend_cache,
    retry_on_oom as retry_on_oom,
)
from symm.torch.operators import forget as forget, group_of as group_of, use as use
