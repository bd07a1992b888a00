"""A GPU that is none: tensors whose values are on the CPU, but which must not be mixed with the CPU's.

PyTorch's device without values, ``meta``, stands for the GPU, because a tensor can be sent there on any machine.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

DEVICE = "meta"
_aten = torch.ops.aten
#: Operations whose tensors may be on two devices.
_BETWEEN_DEVICES = {_aten._to_copy.default, _aten.copy_.default}
#: Operations that take indices from the CPU.
_INDEXING = {_aten.index.Tensor, _aten.index_put.default, _aten.index_put_.default, _aten._index_put_impl_.default}


class _OnGpu(torch.Tensor):
    """A tensor on the pretended GPU; ``values`` are on the CPU."""

    values: torch.Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, values: torch.Tensor) -> "_OnGpu":
        tensor = torch.Tensor._make_wrapper_subclass(
            cls,
            values.size(),
            strides=values.stride(),
            storage_offset=values.storage_offset(),
            dtype=values.dtype,
            device=torch.device(DEVICE),
            requires_grad=values.requires_grad,
        )
        tensor.values = values
        return tensor

    def numpy(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("A tensor on a GPU cannot become an array.")

    @classmethod
    def __torch_dispatch__(cls, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(operation, args, kwargs or {})


class _Mode(TorchDispatchMode):
    """Sends tensors to the pretended GPU, and runs what is done there."""

    n_operations = 0

    def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.n_operations += any(isinstance(leaf, _OnGpu) for leaf in tree_leaves((args, kwargs)))
        return _run(operation, args, kwargs or {})


def _run(operation: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    is_there = any(isinstance(tensor, _OnGpu) for tensor in tensors)
    if is_there and operation not in _BETWEEN_DEVICES:
        for tensor in tensors:
            is_index = operation in _INDEXING and tensor.dtype in (torch.int64, torch.bool)
            if not (isinstance(tensor, _OnGpu) or tensor.dim() == 0 or is_index):
                raise AssertionError(f"{operation} has a tensor of shape {tuple(tensor.shape)} that is on the CPU.")
    asked = kwargs.get("device")
    if asked is not None:
        is_there = torch.device(asked).type == DEVICE
        kwargs = kwargs | {"device": torch.device("cpu")}
    result = operation(*tree_map(_values_of, args), **tree_map(_values_of, kwargs))
    if operation._schema.is_mutable and operation._schema.arguments[0].alias_info is not None:
        return args[0]
    return tree_map(lambda leaf: _there(leaf, is_there), result)


def _values_of(leaf: Any) -> Any:
    return leaf.values if isinstance(leaf, _OnGpu) else leaf


def _there(leaf: Any, is_there: bool) -> Any:
    return _OnGpu(leaf) if is_there and isinstance(leaf, torch.Tensor) and not isinstance(leaf, _OnGpu) else leaf


@contextmanager
def pretended_gpu() -> Iterator[_Mode]:
    """Tensors may be sent to `DEVICE`; mixing them with those of the CPU is an error, as on a GPU."""
    before = torch.__future__.get_overwrite_module_params_on_conversion()
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    try:
        with _Mode() as mode:
            yield mode
    finally:
        torch.__future__.set_overwrite_module_params_on_conversion(before)
