"""`symm.vllm` against the classes that vLLM publishes.

$SYMM_TEST_VLLM names a folder with files of vLLM's wheel. They run with the real PyTorch where it
is there, else with a stand-in, whose tensors are NumPy's arrays. An engine is a process of its own,
as in vLLM.
"""

from __future__ import annotations

import ast
import inspect
import json
import os
import subprocess
import sys
from functools import cached_property
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

import symm

FILES = os.environ.get("SYMM_TEST_VLLM")
pytestmark = [
    pytest.mark.skipif(
        not FILES, reason="no files of vLLM's wheel ($SYMM_TEST_VLLM); bindings/python/dev has them"
    ),
    pytest.mark.skipif(sys.version_info < (3, 11), reason="vLLM's files need Python 3.11"),
]
BUNDLE = {"layer.weight": (8, 4), "layer.bias": (8,)}
TIMEOUT = 20


def module(name, folder=None, **contents):
    made = ModuleType(name)
    made.__dict__.update(contents)
    if folder:
        made.__path__ = [str(folder)]
    sys.modules[name] = made
    return made


def stand_in_for_torch():
    """PyTorch's names that are needed; tensors are arrays of NumPy."""
    annotations = dict.fromkeys(("Tensor", "dtype", "device"), type("NotHere", (), {}))
    torch = module(
        "torch",
        nn=SimpleNamespace(Module=object),
        accelerator=SimpleNamespace(synchronize=lambda: None),
        **annotations,
    )

    class Tensor(np.ndarray):
        def detach(self):
            return self

        def contiguous(self):
            return np.ascontiguousarray(self).view(Tensor)

    def load(token, **how):
        bundle = symm.import_bundle(token, **{**how, "device": None})
        return {name: array.numpy().view(Tensor) for name, array in bundle.items()}

    symm.torch = module("symm.torch", share=symm.ipc_export_bundle, load=load)
    return torch, Tensor


@pytest.fixture(scope="module")
def vllm():
    return load_vllm()


def load_vllm():
    """The published classes, and symm's; what else vLLM has is left out."""
    try:
        import torch

        tensor = None
        if not torch.accelerator.is_available():
            torch.accelerator.synchronize = lambda: None  # as vLLM's own for processors
    except ImportError:
        torch, tensor = stand_in_for_torch()

    def of(array):
        return torch.from_dlpack(array) if tensor is None else array.numpy().view(tensor)

    root = Path(FILES) / "vllm"
    for name in ("", ".distributed", ".config", ".model_executor", ".model_executor.model_loader"):
        module(f"vllm{name}", root.joinpath(*name.split(".")))
    quiet = SimpleNamespace(info=lambda *_: None)
    module("vllm.logger", init_logger=lambda _: quiet)
    module("vllm.config.parallel", ParallelConfig=object)
    module("vllm.config.utils", config=lambda described: described)
    calls = []
    module(
        "vllm.model_executor.model_loader.reload",
        initialize_layerwise_reload=lambda model: calls.append(("initialize", model)),
        finalize_layerwise_reload=lambda model, config: calls.append(("finalize", model, config)),
    )

    from vllm.distributed import weight_transfer as published

    import symm.vllm as ours

    ours.register()
    ours.register()
    return SimpleNamespace(ours=ours, published=published, calls=calls, tensor_of=of, torch=torch)


class Model:
    """Of which a layer is finished, as in vLLM, when all of its weights are there."""

    def __init__(self):
        self.came = {}

    def load_weights(self, weights):
        for name, tensor in weights:
            if tensor.shape != BUNDLE.get(name):
                raise ValueError(f"{name}: {tuple(tensor.shape)}")
            self.came[name] = tensor

    def total(self):
        return sum(float(tensor.sum()) for tensor in self.came.values())


def make_engine(vllm, model):
    config = SimpleNamespace(backend="symm")
    whole = SimpleNamespace(parallel_config=None, model_config="a config")
    device = SimpleNamespace(type="cpu", index=None)
    make = vllm.published.WeightTransferEngineFactory.create_engine
    return make(config, whole, device, model)


def test_the_engines_are_what_the_published_classes_ask_for(vllm):
    pairs = (
        (vllm.ours.SymmWeightTransferEngine, vllm.published.WeightTransferEngine),
        (vllm.ours.SymmTrainerWeightTransferEngine, vllm.published.TrainerWeightTransferEngine),
    )
    for ours, base in pairs:
        assert issubclass(ours, base)
        assert base.__abstractmethods__
        assert not ours.__abstractmethods__
        for name in base.__abstractmethods__:
            asked = list(inspect.signature(getattr(base, name)).parameters)
            assert list(inspect.signature(getattr(ours, name)).parameters) == asked, name

    engine = make_engine(vllm, Model())
    assert type(engine) is vllm.ours.SymmWeightTransferEngine
    with pytest.raises(ValueError, match="versions"):
        engine.parse_update_info({"name": "weights", "versions": 2})
    with pytest.raises(ValueError, match="Invalid update_info"):
        engine.parse_update_info({})
    assert engine.parse_update_info({"name": "weights"}).version is None


def test_vllm_publishes_the_functions_that_a_reload_calls(vllm):
    """Their modules need all of vLLM; so their definitions are read."""
    folder = Path(FILES) / "vllm" / "model_executor" / "model_loader" / "reload"
    defined = {}
    for node in ast.walk(ast.parse((folder / "layerwise.py").read_text())):
        if isinstance(node, ast.FunctionDef):
            defined[node.name] = [one.arg for one in node.args.args] + (
                ["*"] if node.args.vararg else []
            )
    assert defined["initialize_layerwise_reload"] == ["model"]
    assert defined["finalize_layerwise_reload"] in (["*"], ["model", "model_config"])
    assert defined["finalize_layerwise_processing"][:2] == ["model", "model_config"]
    exported = (folder / "__init__.py").read_text()
    assert "initialize_layerwise_reload" in exported
    assert "finalize_layerwise_reload" in exported


def engine_process():
    """Lines of JSON, [method, arguments], come in; how each call ended goes out."""
    vllm = load_vllm()
    model = Model()
    engine = make_engine(vllm, model)
    kept = []

    def init(info):
        engine.init_transfer_engine(engine.parse_init_info(info))

    def finish():
        """Copies, as the layers of vLLM do, and lets go of what came."""
        engine.finish_weight_update()
        total = model.total()
        model.came.clear()
        return total

    methods = {
        "init": init,
        "start": engine.start_weight_update,
        "update": engine.update_weights,
        "finish": finish,
        "keep": lambda: kept.extend(model.came.values()),
        "forget": kept.clear,
        "calls": lambda: [call[0] for call in vllm.calls],
    }
    for line in sys.stdin:
        method, arguments = json.loads(line)
        try:
            result = [True, methods[method](*arguments)]
        except Exception as error:
            result = [False, f"{type(error).__name__}: {error}"]
        print(json.dumps(result), flush=True)


class Client:
    """The four methods that vLLM's clients have, for one engine in another process."""

    def __init__(self, tmp_path):
        self.errors = (tmp_path / "engine.log").open("w+")
        self.process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
        )
        self.totals = []
        self.before_finish = lambda: None

    def call(self, method, *arguments):
        print(json.dumps([method, arguments]), file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        if not line:
            self.errors.seek(0)
            raise EOFError(self.errors.read())
        ended_well, result = json.loads(line)
        if not ended_well:
            raise RuntimeError(result)
        return result

    def init_weight_transfer_engine(self, init_info):
        self.call("init", init_info)

    def start_weight_update(self):
        self.call("start")

    def update_weights(self, update_info):
        self.call("update", update_info)

    def finish_weight_update(self, weight_version=None):
        self.before_finish()
        self.totals.append(self.call("finish"))


@pytest.fixture
def client(tmp_path):
    made = Client(tmp_path)
    yield made
    made.process.kill()
    made.process.wait()
    made.process.stdin.close()
    made.process.stdout.close()
    made.errors.close()


def source_of(vllm, arrays, owners=None):
    class Source(vllm.published.WeightSource):
        @cached_property
        def metadata(self):
            meta = vllm.published.ParamMeta
            return [meta(name, None, shape, owners=owners) for name, shape in BUNDLE.items()]

        def iter_full(self):
            return ((name, vllm.tensor_of(array)) for name, array in arrays.items())

    return Source()


@pytest.fixture
def arrays(tmp_path):
    """Weights in one block, as in a trainer that has one pool."""
    with symm.Group.join(0, 1, f"thread://{tmp_path.name}", backend="host") as group:
        yield {name: group.empty(shape, "f32") for name, shape in BUNDLE.items()}


def fill(arrays, value):
    for array in arrays.values():
        array.numpy()[:] = value
    return sum(array.size for array in arrays.values()) * value


def make_trainer(vllm, client, arrays, rank=0, timeout=TIMEOUT):
    ours = vllm.ours
    assert isinstance(client, vllm.published.VLLMWeightSyncClient)
    return vllm.published.WeightTransferTrainerFactory.trainer_init(
        ours.SymmTrainerInitInfo(rank=rank, timeout=timeout),
        client=client,
        source=source_of(vllm, arrays),
    )


def test_an_engine_loads_what_a_trainer_writes_anew_in_place(vllm, client, arrays):
    trainer = make_trainer(vllm, client, arrays)
    for value in (1, 2, 3):
        expected = fill(arrays, value)
        trainer.send_weights()
        assert client.totals[-1] == expected
        assert symm.ipc_holders(arrays["layer.bias"]).leases == 0
    assert client.call("calls") == ["initialize", "finalize"] * 3


def test_an_engine_that_keeps_the_weights_is_named(vllm, client, arrays):
    fill(arrays, 1)
    trainer = make_trainer(vllm, client, arrays, timeout=0.2)
    client.before_finish = lambda: client.call("keep")
    with pytest.raises(symm.TimeoutError, match=str(client.process.pid)):
        trainer.send_weights()

    client.before_finish = lambda: None
    client.call("forget")
    expected = fill(arrays, 2)
    trainer.send_weights()
    assert client.totals[-1] == expected


def test_an_update_that_fails_leaves_nothing_mapped(vllm, client, arrays):
    odd = dict(arrays)
    odd["layer.weight"] = arrays["layer.weight"][:4]
    fill(arrays, 1)
    with pytest.raises(RuntimeError, match=r"ValueError: layer.weight: \(4, 4\)"):
        make_trainer(vllm, client, odd).send_weights()
    assert client.totals == []

    expected = fill(arrays, 2)
    make_trainer(vllm, client, arrays).send_weights()
    assert client.totals == [expected]


def test_the_trainer_of_an_engine_that_dies_goes_on(vllm, client, arrays):
    fill(arrays, 1)
    trainer = make_trainer(vllm, client, arrays)
    client.before_finish = client.process.kill
    with pytest.raises(EOFError):
        trainer.send_weights()
    assert client.process.wait(TIMEOUT) == -9
    symm.ipc_withdraw(arrays["layer.bias"], TIMEOUT)  # nobody is waited for


def test_a_version_that_somebody_else_publishes_is_loaded_by_its_name(vllm, client, arrays):
    name = f"weights of {os.getpid()}"
    expected = fill(arrays, 5)
    symm.ipc_publish(name, 7, symm.ipc_export_bundle(arrays))
    client.init_weight_transfer_engine({"timeout": TIMEOUT})
    for chosen in ({"name": name}, {"name": name, "version": 7}):
        client.start_weight_update()
        client.update_weights(chosen)
        client.finish_weight_update()
        assert client.totals[-1] == expected

    client.init_weight_transfer_engine({"timeout": 0})
    client.start_weight_update()
    with pytest.raises(RuntimeError, match=r"TimeoutError: .*7"):
        client.update_weights({"name": name, "version": 8})
    symm.ipc_withdraw_version(name, 7, TIMEOUT)


def test_only_rank_0_of_a_trainer_speaks_to_the_engines(vllm, arrays):
    gathered = []

    class Source(type(source_of(vllm, arrays))):
        def iter_full(self):
            for name, tensor in super().iter_full():
                gathered.append(name)
                yield name, tensor

    class NoClient:
        def __getattr__(self, name):
            raise AssertionError(name)

    make = vllm.ours.SymmTrainerWeightTransferEngine.trainer_init
    info = vllm.ours.SymmTrainerInitInfo
    make(info(rank=1), client=NoClient(), source=Source()).send_weights()
    assert gathered == list(BUNDLE)

    with pytest.raises(ValueError, match="source: it is needed"):
        make(info(rank=0), client=NoClient())
    with pytest.raises(ValueError, match=r"rank 0 does not own layer\.bias"):
        make(info(rank=0), client=NoClient(), source=source_of(vllm, arrays, owners=(1, 2)))


if __name__ == "__main__":
    engine_process()
