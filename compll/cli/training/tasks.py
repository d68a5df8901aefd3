"""What can be learned: models with layers large enough to compress, and how long each is trained."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor, nn

CONTEXT = 16
CHARACTERS = 96


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """Inputs and whole-number targets, the first axis counting examples; u8 where that is enough."""

    train_inputs: Tensor
    train_targets: Tensor
    test_inputs: Tensor
    test_targets: Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What is learned and how. `batch` is per worker; `steps` is used where no number of epochs is asked for."""

    name: str
    metric: str
    model: Callable[[], nn.Module]
    batch: int
    learning_rate: float
    warmup_steps: int
    epochs: int = 0
    steps: int = 0


class Pixels(nn.Module):
    """Images of whole numbers as f32 rows between 0 and 1."""

    def __init__(self, largest: float):
        super().__init__()
        self.largest = largest

    def forward(self, images: Tensor) -> Tensor:
        return images.flatten(1).float() / self.largest


class Window(nn.Module):
    """Embeds each character of a window and joins them (Bengio et al. 2003)."""

    def __init__(self, width: int):
        super().__init__()
        self.embedding = nn.Embedding(CHARACTERS, width)

    def forward(self, characters: Tensor) -> Tensor:
        embedded: Tensor = self.embedding(characters.long())
        return embedded.flatten(1)


def perceptron(inputs: nn.Module, *widths: int) -> nn.Sequential:
    """Linear layers with ReLU between them, after `inputs`."""
    layers: list[nn.Module] = [inputs]
    for i, (before, after) in enumerate(zip(widths, widths[1:], strict=False)):
        layers += [nn.ReLU()] * (i > 0) + [nn.Linear(before, after)]
    return nn.Sequential(*layers)


TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        Task(
            name="digits", metric="accuracy", batch=16, learning_rate=0.05, warmup_steps=50, epochs=30,
            model=lambda: perceptron(Pixels(16.0), 64, 256, 128, 10),
        ),
        Task(
            name="fashion-mnist", metric="accuracy", batch=32, learning_rate=0.05,
            warmup_steps=200, epochs=5, model=lambda: perceptron(Pixels(255.0), 784, 256, 128, 10),
        ),
        Task(
            name="text", metric="loss", batch=64, learning_rate=0.2, warmup_steps=100, steps=600,
            model=lambda: perceptron(Window(32), 32 * CONTEXT, 256, CHARACTERS),
        ),
    )
}  # fmt: skip
