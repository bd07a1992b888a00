"""A GPU that is played on the CPU: tensors without data, copies that end late, and a record of what
waits for it.

Tensors of the device are PyTorch's fake tensors: every operation checks devices, shapes and types
as on CUDA, and autocast and nnU-Net's gradient scaler work, but nothing is computed. Tensors of the
host are real. Whatever comes back from the device is 1. Where PyTorch would ask the driver of CUDA
(whether it is there, its events, the engine of the backward pass), this module answers.
"""

import traceback
from collections import defaultdict
from contextlib import ExitStack
from graphlib import TopologicalSorter
from types import SimpleNamespace
from unittest import mock

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, unset_fake_temporarily
from torch.autograd.graph import get_gradient_edge
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

aten = torch.ops.aten


class FakeGPU(TorchDispatchMode):
    """Within this context tensors can be on a GPU.

    Attributes:
        overflows: What the gradient scaler is told: whether any gradient is not finite.
        events: What happened, in order: "wait" (the host waits for the device), "copy" (a copy to
            pinned memory is queued), "event" (an event is recorded), "event wait" (the host waits
            for an event).
        places: Line of nnU-Net's code or ours of each wait.
        half: Names of the operations that had a result in half precision.
    """

    def __init__(self):
        super().__init__()
        self.overflows = False
        self._queue = []
        self._tensors = FakeTensorMode(allow_non_fake_inputs=True)
        self.forget()

    def forget(self):
        """Begin a new record."""
        self.events, self.places, self.half = [], [], set()

    def __enter__(self):
        self._context = ExitStack()
        for owner, name, ours in (
            (torch.cuda.amp.common, "amp_definitely_not_available", lambda: False),
            (torch.cuda, "Event", self._make_event),
            (torch.cuda, "current_stream", lambda device=None: None),
            (torch.cuda, "synchronize", lambda device=None: self._wait()),
            (torch.autograd, "_engine_run_backward", run_backward),
            (torch.utils, "swap_tensors", _nothing_to_swap),
        ):
            self._context.enter_context(mock.patch.object(owner, name, ours))
        self._context.enter_context(self._tensors)
        return super().__enter__()

    def __exit__(self, *error):
        super().__exit__(*error)
        self._context.__exit__(*error)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        is_on_device = any(isinstance(tensor, FakeTensor) for tensor in tensors)
        goes_to = None if kwargs.get("device") is None else torch.device(kwargs["device"]).type
        if kwargs.pop("pin_memory", False):
            return self._on_host(_unwritten, func, *args, **kwargs)
        if goes_to == "cpu" and is_on_device:
            self._wait()  # even if it is `non_blocking`, because this memory of the host is not pinned
            return self._on_host(
                torch.ones, args[0].shape, dtype=kwargs.get("dtype") or args[0].dtype
            )
        if goes_to == "cpu" or (goes_to is None and not is_on_device):
            return self._on_host(func, *args, **kwargs)
        if func is aten._local_scalar_dense.default:
            return self._number()
        if func is aten.copy_.default and not isinstance(args[0], FakeTensor):
            return self._copy_to_host(*args, **kwargs)
        if _waits(func, args, kwargs, tensors):
            self._wait()
        result = func(*args, **kwargs)
        types = {leaf.dtype for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)}
        if types & {torch.float16, torch.bfloat16}:
            self.half.add(func._schema.name.removeprefix("aten::"))
        return result

    def _on_host(self, func, *args, **kwargs):
        with unset_fake_temporarily():
            return func(*args, **kwargs)

    def _number(self):
        self._wait()
        asks_for_overflow = any(
            frame.name == "_maybe_opt_step" for frame in traceback.extract_stack()
        )
        return float(self.overflows) if asks_for_overflow else 1.0

    def _copy_to_host(self, memory, values, non_blocking=False):
        if non_blocking:
            self.events.append("copy")
            self._queue.append(memory)
        else:
            self._wait()
            self._end([memory])
        return memory

    def _wait(self):
        self.events.append("wait")
        frames = [
            frame for frame in traceback.extract_stack()[:-2] if "nnunet" in frame.filename.lower()
        ]
        self.places.append(f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "a test")
        self._end(self._queue)
        self._queue = []

    def _end(self, copies):
        with unset_fake_temporarily():
            for memory in copies:
                memory.fill_(1)

    def _make_event(self):
        event = SimpleNamespace(copies=None)

        def record(stream=None):
            self.events.append("event")
            event.copies = [*self._queue]

        def synchronize():
            self.events.append("event wait")
            self._end(event.copies)

        event.record, event.synchronize = record, synchronize
        return event


def _unwritten(func, *args, **kwargs):
    """Memory as it is before a copy to it has ended."""
    return func(*args, **kwargs).fill_(torch.nan)


def _waits(func, args, kwargs, tensors):
    """Whether an operation on the device makes the host wait: it copies from the host, or its size
    depends on data.

    Operations whose result has such a size, as ``x[mask]`` and ``mask.nonzero()``, are errors with
    fake tensors.
    """
    if func is aten._to_copy.default and not isinstance(args[0], FakeTensor):
        return not kwargs.get("non_blocking", False)
    if func is aten.copy_.default and not isinstance(args[1], FakeTensor):
        return args[1].ndim > 0 and not (
            args[2] if len(args) > 2 else kwargs.get("non_blocking", False)
        )
    if func in (aten.index.Tensor, aten.index_put_.default, aten.index_put.default):
        places = [place for place in args[1] if place is not None]
        return any(
            place.dtype == torch.bool or not isinstance(place, FakeTensor) for place in places
        )
    # Other operations take a number of the host, as a tensor without dimensions, along with their
    # call.
    return func is aten.where.self and not all(isinstance(tensor, FakeTensor) for tensor in tensors)


def _nothing_to_swap(tensor, applied):
    """For `torch.nn.Module.to`, which replaces fake tensors even if they stay on their device."""
    assert tensor.device == applied.device


def run_backward(
    outputs,
    gradients,
    keep_graph,
    create_graph,
    inputs,
    allow_unreachable=True,
    *,
    accumulate_grad=False,
):
    """What PyTorch's engine does, one node of the graph after the other."""
    assert not create_graph
    roots = [get_gradient_edge(tensor) for tensor in outputs]
    wanted = [get_gradient_edge(tensor) for tensor in inputs]
    arrived = defaultdict(dict)  # of each node, the gradient of each of its outputs
    for root, gradient in zip(roots, gradients, strict=True):
        _add(arrived, root.node, root.output_nr, gradient)
    found = {}
    with torch.no_grad():
        for node in _in_order([root.node for root in roots]):
            of_outputs = arrived.pop(node, {})
            found |= {edge: of_outputs.get(edge.output_nr) for edge in wanted if edge.node is node}
            if not of_outputs:
                continue
            if hasattr(node, "variable"):
                if accumulate_grad:
                    _accumulate(node.variable, of_outputs[0])
                continue
            incoming = [of_outputs.get(i) for i in range(len(node._input_metadata))]
            outgoing = (node.apply if hasattr(node, "apply") else node)(*incoming)
            outgoing = outgoing if isinstance(outgoing, tuple) else (outgoing,)
            for (following, position), gradient in zip(node.next_functions, outgoing, strict=False):
                if following is not None and gradient is not None:
                    _add(arrived, following, position, gradient)
    return tuple(found.get(edge) for edge in wanted)


def _add(arrived, node, position, gradient):
    meant = node._input_metadata[position]
    assert gradient.device == meant.device, (
        f"{node.name()}: {gradient.device} where {meant.device} is expected"
    )
    gradient = gradient.sum_to_size(meant.shape).to(meant.dtype)
    earlier = arrived[node].get(position)
    arrived[node][position] = gradient if earlier is None else earlier + gradient


def _accumulate(variable, gradient):
    assert (variable.device, variable.dtype) == (gradient.device, gradient.dtype)
    variable.grad = gradient if variable.grad is None else variable.grad + gradient


def _in_order(roots):
    """The nodes of a graph, each after all that lead to it."""
    following = {}
    open_nodes = [*roots]
    while open_nodes:
        node = open_nodes.pop()
        if node not in following:
            following[node] = [other for other, _ in node.next_functions if other is not None]
            open_nodes += following[node]
    return reversed([*TopologicalSorter(following).static_order()])
