"""What a model on a GPU needs is said at once and by name: what is needed, and what was found."""

from __future__ import annotations

import threading
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from runtime.fake_streams import FakeDevice, install
from torch import nn

from compll.diagnostics import CompllError, UnsupportedError
from compll.runtime import devices, groups
from compll.runtime.collectives import TorchCollectives
from compll.runtime.devices import device_at
from compll.runtime.groups import backend_of, check_groups, group_timeout, open_collectives
from compll.runtime.placement import check_plan, device_of, other_collectives
from compll.runtime.streams import CudaStreams, HostStreams

CPU, GPU, OTHER = (torch.device(name) for name in ("cpu", "cuda:0", "cuda:1"))


def group(**backends: str) -> Any:
    """A process group that moves tensors of each type of device by some backend."""

    def backend(device: torch.device) -> Any:
        if device.type not in backends:
            raise RuntimeError(f"No backend type associated with device type {device.type}")
        options = SimpleNamespace(_timeout=timedelta(seconds=7))
        return SimpleNamespace(name=lambda: backends[device.type], options=options)

    return SimpleNamespace(_get_backend=backend)


def test_where_gradients_are() -> None:
    assert device_of({}) == CPU
    assert device_of({"a": CPU, "b": CPU}) == CPU
    assert device_of({"a": OTHER, "b": OTHER}) == OTHER


def test_two_devices_are_named() -> None:
    with pytest.raises(UnsupportedError, match="one device, `a` is on `cuda:0` and `c` on `cuda:1`"):
        device_of({"a": GPU, "b": GPU, "c": OTHER})
    with pytest.raises(UnsupportedError, match="one device, `a` is on `cpu` and `b` on `cuda:0`"):
        device_of({"a": CPU, "b": GPU})


def test_another_kind_of_device_is_named() -> None:
    with pytest.raises(UnsupportedError, match="needs gradients on the CPU or a CUDA device, `b` is on `meta`"):
        device_of({"a": CPU, "b": torch.device("meta")})


@pytest.mark.parametrize("backend", ["cpu", "emulator", "reference"])
def test_a_backend_of_the_cpu_is_refused_on_a_gpu(backend: str) -> None:
    expected = f"backend='{backend}' needs CPU tensors, gradients are on `cuda:0`: take 'auto' or 'cuda'"
    with pytest.raises(CompllError, match=expected):
        device_at(GPU, backend, "gradients")
    assert device_at(CPU, backend, "gradients").name == backend


def test_the_gpu_s_backend_is_refused_on_the_cpu() -> None:
    with pytest.raises(CompllError, match="backend='cuda' needs CUDA tensors, gradients are on `cpu`"):
        device_at(CPU, "cuda", "gradients")


@pytest.mark.parametrize("backend", ["auto", "cuda"])
def test_tensors_on_a_gpu_need_the_gpu_s_backend(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "open_device", lambda name: SimpleNamespace(name=name))
    assert device_at(GPU, backend, "gradients").name == "cuda"


def test_a_plan_from_measurements_of_the_cpu() -> None:
    with pytest.raises(UnsupportedError, match="plan='auto' measures on the CPU, .* on `cuda:0`: give a strategy"):
        check_plan(GPU, "auto")
    check_plan(GPU, "all")
    check_plan(CPU, "auto")


def test_who_else_talks_during_backward() -> None:
    plain = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    assert list(other_collectives(plain, False)) == []
    talking = nn.Sequential(plain, nn.SyncBatchNorm(3))
    assert list(other_collectives(talking, True)) == ["SyncBatchNorm", "find_unused_parameters=True"]


@pytest.mark.parametrize(
    "backends, found", [({"cpu": "gloo", "cuda": "gloo"}, "gloo"), ({"cpu": "gloo"}, "nothing")], ids=["gloo", "none"]
)
def test_a_group_without_nccl(backends: dict[str, str], found: str) -> None:
    expected = f"gradients on `cuda:0` need a process group with NCCL, the DDP object's has {found} for them"
    with pytest.raises(UnsupportedError, match=expected):
        check_groups(group(**backends), GPU, None)
    expected = f"gradients on `cuda:0` need a process group with NCCL, process_group has {found} for them"
    with pytest.raises(UnsupportedError, match=expected):
        check_groups(group(cuda="nccl"), GPU, group(**backends))


def test_a_group_without_gloo() -> None:
    expected = "gradients on `cpu` need a process group with Gloo, the DDP object's has nothing for them"
    with pytest.raises(UnsupportedError, match=expected):
        check_groups(group(cuda="nccl"), CPU, None)


def test_a_group_of_other_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    parent, own = group(cpu="gloo"), group(cpu="gloo")
    monkeypatch.setattr(groups.dist, "get_process_group_ranks", lambda given: [0, 1] if given is parent else [0])
    with pytest.raises(CompllError, match=r"process_group needs the ranks of the DDP object, \[0, 1\], got \[0\]"):
        check_groups(parent, CPU, own)
    with pytest.raises(CompllError, match="nothing else uses, got that of the DDP object"):
        check_groups(parent, CPU, parent)


@pytest.mark.parametrize("device, backend, seconds", [(GPU, "nccl", 37), (CPU, "gloo", 7)])
def test_the_own_group_is_of_the_gradients_kind(
    device: torch.device, backend: str, seconds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the default group is; on a GPU torch's watchdog is given longer than the worker."""
    asked: list[dict[str, Any]] = []

    def new_group(ranks: list[int], **options: Any) -> Any:
        asked.append(options)
        return group(cpu="gloo", cuda="nccl")

    install(FakeDevice(), monkeypatch)
    for name, result in (("get_process_group_ranks", [0]), ("get_world_size", 1), ("get_rank", 0)):
        monkeypatch.setattr(groups.dist, name, lambda *given, result=result: result)
    monkeypatch.setattr(groups.dist, "new_group", new_group)
    parent = group(cpu="gloo", cuda="nccl")
    collectives = open_collectives(parent, CudaStreams(device) if device is GPU else HostStreams())
    assert collectives.device == device
    assert asked == [
        {"backend": backend, "timeout": timedelta(seconds=seconds), "use_local_synchronization": False}
    ]  # fmt: skip
    assert backend_of(parent, device) == backend
    assert group_timeout(parent, device) == timedelta(seconds=7)


@pytest.mark.parametrize("unfinished", [True, False])
@pytest.mark.parametrize("device", [GPU, CPU], ids=["gpu", "cpu"])
def test_what_hangs_on_a_gpu_is_aborted(
    device: torch.device, unfinished: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Waiting for it, as destroying a group does, might take for ever; on the CPU Gloo ends by itself."""
    ends: list[str] = []

    def abort() -> None:
        ends.append("aborted")
        raise RuntimeError("the communicator was not there yet")

    install(FakeDevice(), monkeypatch)
    for name, result in (("get_world_size", 1), ("get_rank", 0), ("is_initialized", True)):
        monkeypatch.setattr(groups.dist, name, lambda *given, result=result: result)
    monkeypatch.setattr(groups.dist, "destroy_process_group", lambda given: ends.append("destroyed"))
    streams = CudaStreams(device) if device is GPU else HostStreams()
    collectives = TorchCollectives(SimpleNamespace(abort=abort), streams, closes=True)
    collectives.close(unfinished=unfinished)
    collectives.close(unfinished=unfinished)
    assert ends == ["aborted" if unfinished and device is GPU else "destroyed"]


class Done:
    def wait(self) -> None: ...


def test_no_thread_outlives_groups_that_were_destroyed_first(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, result in (("get_world_size", 2), ("get_rank", 0), ("is_initialized", False)):
        monkeypatch.setattr(groups.dist, name, lambda *given, result=result: result)
    for name in ("isend", "irecv"):
        monkeypatch.setattr(groups.dist, name, lambda *given, **named: Done())
    before = threading.active_count()
    collectives = TorchCollectives(SimpleNamespace(), HostStreams(), closes=True)
    collectives.all_gather(torch.empty(2), torch.ones(1), lambda: None).wait()
    assert threading.active_count() == before + 1
    collectives.close()
    collectives.close()
    assert threading.active_count() == before
