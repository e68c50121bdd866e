"""Lesson 02's demos: their maths against torch itself, and their drawing without a display."""

from __future__ import annotations

import pytest
import torch

from torchcourse.demos import descent, graph, style

EXPRESSIONS = ["a", "a + a", "(a * b + c) ** 2 + a", "sin(a * b) / exp(c) - relu(b)", "-a ** 2 * sigmoid(b)", "sqrt(a)"]


def is_png(picture: style.Picture) -> bool:
    return picture.png.startswith(b"\x89PNG") and len(picture.png) < 200_000


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_values_and_gradients_are_those_of_torch(expression: str) -> None:
    leaves = {k: torch.tensor(v, dtype=torch.float64, requires_grad=True) for k, v in graph.VALUES.items()}
    result = eval(expression, {**graph.CALLS, **leaves})
    result.backward()
    nodes = graph.read(expression)
    assert nodes[-1].value.item() == pytest.approx(result.item())
    for node in nodes:
        if node.label in leaves:
            assert node.slope == pytest.approx(leaves[node.label].grad.item())  # type: ignore[union-attr]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_every_graph_can_be_drawn_and_read(expression: str) -> None:
    picture = graph.draw(expression)
    assert is_png(picture)
    assert picture.alt.startswith(f"Graph of {expression}: ")


def test_no_two_boxes_of_a_graph_overlap() -> None:
    nodes = graph.read("(a * b + c) * (a - b) / (c + 2) + exp(a) * b")
    spots = list(graph.places(nodes).values())
    for i, (column, height) in enumerate(spots):
        assert all(other[0] != column or abs(other[1] - height) >= 1 for other in spots[:i])


REFUSED = ["x + 1", "a +", "__import__('os')", "a.grad", "", "a if b else c", "a + " * 40 + "a"]


@pytest.mark.parametrize("expression", REFUSED)
def test_what_cannot_be_drawn_is_explained_and_not_run(expression: str) -> None:
    with pytest.raises(graph.UnreadableError):
        graph.read(expression)
    assert is_png(graph.picture(expression))


def test_numbers_that_are_no_numbers_are_drawn_too() -> None:
    assert "log nan" in graph.picture("log(b)").alt
    assert is_png(graph.picture("1 / (a - 2)"))


def test_a_path_follows_sgd() -> None:
    point = torch.nn.Parameter(torch.tensor(descent.START, dtype=torch.float64))
    optimizer = torch.optim.SGD([point], lr=0.03)
    for _ in range(5):
        optimizer.zero_grad()
        descent.valley(point).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    torch.testing.assert_close(descent.path(descent.valley, 0.03, 5)[-1], point.detach())


def test_the_valley_runs_away_beyond_two_over_its_curvature() -> None:
    assert "runs away" in descent.outcome(descent.valley, descent.path(descent.valley, 0.21))
    assert "runs away" not in descent.outcome(descent.valley, descent.path(descent.valley, 0.19))


@pytest.mark.parametrize("surface", descent.SURFACES)
@pytest.mark.parametrize("hundredths", [2, 20, 60])
def test_every_descent_can_be_drawn(surface: str, hundredths: int) -> None:
    picture = descent.picture(surface, hundredths)
    assert is_png(picture)
    assert surface in picture.alt


@pytest.mark.parametrize("explorer", [graph.explorer, descent.explorer])
def test_an_explorer_follows_its_controls(explorer: object) -> None:
    one = explorer()  # type: ignore[operator]
    before = one.picture
    name, value = ("expression", "a * b") if "expression" in one.values else ("hundredths", 33)
    one.set(name, value)
    assert one.picture.alt != before.alt
