"""Weights for engines of vLLM: one bundle for a whole model, mapped by each engine.

With ``WeightTransferConfig(backend="symm")``, which vLLM finds by its plugins, an engine takes
versions that are published by a name on its machine. A trainer hands over what a `WeightSource` of
vLLM's yields, without a copy of its own, or publishes by itself and only names the version. This is
for vLLM 0.33, and is imported by those who have it.
"""

from __future__ import annotations

import functools
import uuid
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar

from vllm.distributed.weight_transfer.base import (
    TrainerInitInfo,
    TrainerWeightTransferEngine,
    WeightTransferEngine,
    WeightTransferInitInfo,
    WeightTransferUpdateInfo,
)

import symm
from symm.enums import Compare
from symm.errors import PeerFailedError, TimeoutError  # noqa: A004 - as in symm

TYPE_CHECKING = False  # to checkers of types it is true
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    import torch
    from vllm.distributed.weight_transfer.base import VLLMWeightSyncClient, WeightSource

BACKEND = "symm"


@dataclass
class SymmInitInfo(WeightTransferInitInfo):
    """How an engine looks for versions.

    Attributes:
        directory: the path in the engine of the trainer's $SYMM_IPC_DIRECTORY; None: the engine's.
        timeout: seconds to wait for a version, and for its maker's answer; None:
            $SYMM_TIMEOUT_MS, else 60.
    """

    directory: str | None = None
    timeout: float | None = None


@dataclass
class SymmUpdateInfo(WeightTransferUpdateInfo):
    """Which version an engine takes.

    Attributes:
        name: as it was published by `symm.ipc_publish()`.
        version: its number; None: the newest.
    """

    name: str
    version: int | None = None


@dataclass
class SymmTrainerInitInfo(TrainerInitInfo):
    """How a trainer hands its weights over: `rank`, and what is in `SymmInitInfo`.

    The deadline is that of the engines, and that by which they have to let go of a version.
    """

    backend: ClassVar[str] = BACKEND
    directory: str | None = None
    timeout: float | None = None


class SymmWeightTransferEngine(WeightTransferEngine):
    """The side of an engine: maps the version that is named, and loads the model from there."""

    init_info_cls = SymmInitInfo
    update_info_cls = SymmUpdateInfo

    def __init__(self, config: Any, vllm_config: Any, device: torch.device, model: Any) -> None:
        super().__init__(config, vllm_config, device, model)
        self._how = SymmInitInfo()
        self._mapped: list[Mapping[str, torch.Tensor]] = []

    def init_transfer_engine(self, init_info: SymmInitInfo) -> None:
        """Take over how versions are looked for. [local]"""
        self._how = init_info

    def start_weight_update(self) -> None:
        """Make the model ready to be loaded layer by layer. [local]"""
        from vllm.model_executor.model_loader.reload import initialize_layerwise_reload

        self._mapped.clear()  # of an update that was not finished
        initialize_layerwise_reload(self.model)

    def receive_weights(self, update_info: SymmUpdateInfo) -> None:
        """Map a version and load the model from it. [local] [blocking]

        Raises:
            symm.TimeoutError: there is no such version; the message tells which there are.
            symm.InvalidHandleError: it was withdrawn meanwhile.
        """
        from vllm.model_executor.model_loader.mtp_validation import disable_mtp_completeness_check

        from symm.torch import load

        how = self._how
        number = update_info.version
        _, token = symm.ipc_lookup(
            update_info.name,
            number or 0,
            compare=Compare.GE if number is None else Compare.EQ,
            timeout=how.timeout,
            directory=how.directory,
        )
        tensors = load(
            token,
            timeout=how.timeout,
            directory=how.directory,
            device=self.device.index if self.device.type == "cuda" else None,
        )
        self._mapped.append(tensors)  # a layer may read it only when the update finishes
        try:
            with disable_mtp_completeness_check():
                self.model.load_weights(list(tensors.items()))
        except BaseException:
            self._mapped.clear()  # vLLM ends the update
            raise

    def finish_weight_update(self) -> None:
        """Finish the model, and let go of the version. [local]"""
        from vllm.model_executor.model_loader.reload import finalize_layerwise_reload

        finalize_layerwise_reload(self.model, self.model_config)
        self._mapped.clear()

    def shutdown(self) -> None:
        """Let go of what is mapped. [local]"""
        self._mapped.clear()


class SymmTrainerWeightTransferEngine(TrainerWeightTransferEngine):
    """The side of a trainer: its rank 0 publishes the weights for the time of an update."""

    init_info_cls = SymmTrainerInitInfo

    def __init__(
        self,
        *,
        client: VLLMWeightSyncClient,
        source: WeightSource,
        is_sender: bool = True,
        rank: int = 0,
        timeout: float | None = None,
    ) -> None:
        super().__init__(client=client, source=source, is_sender=is_sender, rank=rank)
        self._timeout = timeout
        self._name = f"vllm-{uuid.uuid4().hex}"
        self._version = 0

    @classmethod
    def trainer_init(
        cls,
        init_info: SymmTrainerInitInfo,
        *,
        client: VLLMWeightSyncClient,
        source: WeightSource | None = None,
    ) -> SymmTrainerWeightTransferEngine:
        """Tell the engines how to look for versions; on each rank of the trainer.

        Raises:
            ValueError: there is no source, or rank 0 does not own all of its parameters.
            TypeError: the source yields no full tensors.
        """
        if source is None:
            raise ValueError("source: it is needed")
        if not source.implements_iter_full():
            raise TypeError(f"source: {type(source).__name__} does not implement iter_full()")
        if init_info.is_sender:
            missing = {meta.name for meta in source.metadata} - set(source.owned_names(0))
            if missing:
                raise ValueError(f"source: rank 0 does not own {min(missing)}")
            client.init_weight_transfer_engine(
                {"directory": init_info.directory, "timeout": init_info.timeout}
            )
        return cls(
            client=client,
            source=source,
            is_sender=init_info.is_sender,
            rank=init_info.rank,
            timeout=init_info.timeout,
        )

    def send_weights(self) -> None:
        """Have the engines load the weights, and wait until none of them has the memory mapped.

        [blocking, timeout] On each rank of the trainer. Afterwards the weights may be written anew.

        Raises:
            symm.TimeoutError: an engine still maps the memory; the message names its process.
            InvalidArgumentError: the weights lie in memory that cannot be shared
                (`symm.torch.share()`).
        """
        if not self.is_sender:
            for _ in self.source.iter_full():
                pass  # gathers, for rank 0
            return

        from symm.torch import share

        weights = {name: tensor.detach().contiguous() for name, tensor in self.source.iter_full()}
        self._version += 1
        symm.ipc_publish(self._name, self._version, share(weights))
        try:
            self.client.start_weight_update()
            self.client.update_weights({"name": self._name, "version": self._version})
            self.client.finish_weight_update()
        except BaseException:
            with suppress(TimeoutError, PeerFailedError):  # the client's error says more
                symm.ipc_withdraw_version(self._name, self._version, 0)
            raise
        symm.ipc_withdraw_version(self._name, self._version, self._timeout)


@functools.cache
def register() -> None:
    """Make the back end "symm" known to vLLM. [local]

    vLLM calls it in each of its processes, as a plugin.
    """
    from vllm.distributed.weight_transfer.factory import (
        WeightTransferEngineFactory,
        WeightTransferTrainerFactory,
    )

    WeightTransferEngineFactory.register_engine(BACKEND, SymmWeightTransferEngine)
    WeightTransferTrainerFactory.register_engine(BACKEND, SymmTrainerWeightTransferEngine)
