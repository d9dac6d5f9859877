"""What a call launches: it is captured into a graph that is never run, whose kernel nodes tell their blocks and threads."""
import ctypes

THREAD_LOCAL = 1
KERNEL = 0


class KernelNode(ctypes.Structure):  # CUDA_KERNEL_NODE_PARAMS_v2
    _fields_ = [("func", ctypes.c_void_p)] + [(name, ctypes.c_uint) for name in (
        "grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "shared")] + [
        (name, ctypes.c_void_p) for name in ("kernel_params", "extra", "kern", "ctx")]


def launches(call, stream, driver=None):
    """[(blocks, threads of a block)] of the kernels that `call` puts on `stream`."""
    driver = driver or ctypes.CDLL("libcuda.so.1")

    def require(name, *arguments):
        status = getattr(driver, name)(*arguments)
        if status != 0:
            raise RuntimeError(f"{name}: CUDA error {status}")

    graph, count = ctypes.c_void_p(), ctypes.c_size_t()
    require("cuStreamBeginCapture_v2", ctypes.c_void_p(stream), ctypes.c_int(THREAD_LOCAL))
    try:
        call()
    finally:
        require("cuStreamEndCapture", ctypes.c_void_p(stream), ctypes.byref(graph))
    require("cuGraphGetNodes", graph, None, ctypes.byref(count))
    nodes = (ctypes.c_void_p * count.value)()
    require("cuGraphGetNodes", graph, nodes, ctypes.byref(count))
    found = []
    for node in nodes:
        kind, parameters = ctypes.c_int(), KernelNode()
        require("cuGraphNodeGetType", ctypes.c_void_p(node), ctypes.byref(kind))
        if kind.value == KERNEL:
            require("cuGraphKernelNodeGetParams_v2", ctypes.c_void_p(node), ctypes.byref(parameters))
            found.append((parameters.grid_x * parameters.grid_y * parameters.grid_z,
                          parameters.block_x * parameters.block_y * parameters.block_z))
    require("cuGraphDestroy", graph)
    return found
