"""The residual in two parts: what users read, write, save and schedule is the residual itself."""

import pytest
import torch

import compll
from compll.codegen.feedback_form import EAGER, LAZY
from compll.runtime.state import State

SHAPE = (40, 30)


def gradients(count: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    return [torch.randn(SHAPE, generator=generator) for _ in range(count)]


def steps(c: compll.Compressor, state: State, grads: list[torch.Tensor]) -> list[torch.Tensor]:
    return [c.encode(g, state, key=compll.Key(step=i)).buffer for i, g in enumerate(grads)]


@pytest.fixture(params=["reference", "cpu"])
def compressor(request: pytest.FixtureRequest) -> compll.Compressor:
    return compll.load("linear", backend=request.param, bits=3)


def test_the_form_is_chosen_by_what_it_moves() -> None:
    chosen = {n: compll.load(n).sized(SHAPE).compilation.feedback_function for n in ("onebit", "topk", "tbq")}
    assert chosen == {"onebit": LAZY, "topk": EAGER, "tbq": EAGER}


def test_reading_the_residual_between_steps_changes_nothing(compressor: compll.Compressor) -> None:
    grads = gradients(4)
    quiet, watched = (compressor.init_state(grads[0]) for _ in range(2))
    expected = steps(compressor, quiet, grads)
    for i, (g, buffer) in enumerate(zip(grads, expected, strict=True)):
        before = watched.residual.clone()
        payload = compressor.encode(g, watched, key=compll.Key(step=i))
        assert torch.equal(payload.buffer, buffer)
        assert torch.equal(watched.residual, (g + before) - compressor.decode(payload))


def test_what_is_written_to_the_residual_counts(compressor: compll.Compressor) -> None:
    grads = gradients(2)
    state = compressor.init_state(grads[0])
    compressor.encode(grads[0], state)
    state.residual.zero_()
    assert torch.equal(compressor.encode(grads[1], state).buffer, compressor.encode(grads[1]).buffer)


def test_saved_states_go_on_where_they_were(compressor: compll.Compressor) -> None:
    grads = gradients(4)
    state = compressor.init_state(grads[0])
    steps(compressor, state, grads[:2])
    restored = compressor.init_state(grads[0])
    restored.load_state_dict(state.state_dict())
    copied = state.clone()
    expected = steps(compressor, state, grads[2:])
    for other in (restored, copied):
        assert all(map(torch.equal, steps(compressor, other, grads[2:]), expected))


def test_snapshots_go_back_and_join_nothing(compressor: compll.Compressor, monkeypatch: pytest.MonkeyPatch) -> None:
    grads = gradients(5)
    state, expected = compressor.init_state(grads[0]), compressor.init_state(grads[0])
    snapshot = state.clone()
    monkeypatch.setattr(State, "join", lambda self: pytest.fail("a residual was joined"))
    for i, g in enumerate(grads):
        snapshot.copy_from(state)
        compressor.encode(grads[i - 1], state, key=compll.Key(step=i))
        state.copy_from(snapshot)
        payloads = [compressor.encode(g, s, key=compll.Key(step=i)).buffer for s in (state, expected)]
        assert torch.equal(*payloads)
    assert all(map(torch.equal, state.parts(), expected.parts()))


def test_a_snapshot_has_the_parameters_that_it_was_taken_with(compressor: compll.Compressor) -> None:
    first, second = gradients(2)
    state = compressor.init_state(first)
    compressor.encode(first, state)
    snapshot, residual = state.clone(), state.clone().residual
    compressor.with_params(bits=6).encode(second, state)
    state.copy_from(snapshot)
    assert torch.equal(state.residual, residual) and torch.equal(snapshot.residual, residual)


def test_a_changed_parameter_keeps_what_was_not_sent(compressor: compll.Compressor) -> None:
    first, second = gradients(2)
    state = compressor.init_state(first)
    sent = compressor.decode(compressor.encode(first, state))
    wider = compressor.with_params(bits=6)
    payload = wider.encode(second, state)
    assert payload.nbytes == wider.payload_bytes(SHAPE)
    torch.testing.assert_close(sent + wider.decode(payload) + state.residual, first + second)
