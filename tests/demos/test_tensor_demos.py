"""Demos of lessons 01 to 03: their maths against torch itself, and every picture drawn without a display."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from torchcourse.demos import broadcasting, depth, descent, graph, grids, images, norms, residual, strides

X = torch.arange(12).view(3, 4)
SHAPES = st.lists(st.integers(0, 4), max_size=4).map(tuple)
VIEWS: list[Tensor] = [
    X,
    X.t(),
    X[1:, ::2],
    X[1].expand(3, 4),
    X.as_strided((5, 3), (2, 1)),
    X[2, 3],
    X[:0],
    torch.arange(24).view(2, 3, 4).permute(0, 2, 1)[:, ::2],
    torch.tensor([0.5, -1.0]),
    torch.tensor([True, False]),
    torch.ones(3, requires_grad=True),
]


@pytest.mark.parametrize("view", VIEWS, ids=str)
def test_a_layout_reads_the_cells_that_the_view_reads_and_can_be_drawn(view: Tensor) -> None:
    plan = strides.layout(view)
    cells = [cell for _, row in plan.rows for cell in row]
    assert [plan.storage[cell] for cell in cells] == [f"{value:g}" for value in view.flatten().tolist()]
    assert str(tuple(view.shape)) in plan.facts
    assert strides.draw(view, "view").alt.startswith("view: shape")


def test_a_view_too_big_to_draw_is_refused_with_both_sizes() -> None:
    with pytest.raises(ValueError, match="1 rows over 100 stored elements; the picture has room for 9 rows over 24"):
        strides.draw(torch.zeros(100))


@pytest.mark.parametrize("view", strides.VIEWS)
def test_each_offered_view_is_what_its_title_says(view: str) -> None:
    seen = strides.view_of(X, view, 1, 2, 2)
    assert torch.equal(seen, eval(view, {"x": X, "start": 1, "step": 2, "row": 2}))


def test_a_view_that_leaves_the_storage_is_explained_and_not_raised() -> None:
    picture = strides.picture(strides.VIEWS[-1], start=2, step=4, row=4)
    assert "x.as_strided((3, 4), (4, 4), 2) is refused: it would read cell 22" in picture.alt


@settings(deadline=None, max_examples=50)
@given(SHAPES, SHAPES)
def test_alignment_agrees_with_torch_and_can_be_drawn(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    try:
        wanted = f"result {tuple(torch.broadcast_shapes(a, b))}"
    except RuntimeError:
        wanted = "neither is 1"
    assert broadcasting.explain(broadcasting.align(a, b)).endswith(wanted)
    assert broadcasting.draw(a, b).alt


@pytest.mark.parametrize("text", ["4, 1, 3", "(4,1,3)", " 4 1 3 ", "[4, 1, 3,]"])
def test_a_shape_is_read_as_people_type_it(text: str) -> None:
    assert broadcasting.parse(text) == (4, 1, 3)


@pytest.mark.parametrize("text", ["4, x", "-1", "1 2 3 4 5 6 7", "3.5"])
def test_what_is_no_shape_is_said_in_the_picture(text: str) -> None:
    picture = broadcasting.picture(text, "2")
    assert repr(text) in picture.alt


def test_a_stretched_grid_shows_what_broadcasting_repeats() -> None:
    grid, repeated = grids.stretched(torch.tensor([1, 2]), torch.Size((3, 2)))
    assert grid.tolist() == [[1, 2]] * 3
    assert repeated.tolist() == [[False] * 2, [True] * 2, [True] * 2]


def test_grids_can_be_drawn_and_say_their_numbers() -> None:
    assert grids.add(torch.arange(3)[:, None], torch.arange(4)).alt
    assert "'0.143'" in grids.draw({"scores": X > 5}, scores=X.float() / 7, chosen=X > 5).alt
    with pytest.raises(ValueError, match="tensor has 3 dimensions"):
        grids.draw(x=torch.zeros(2, 2, 2))


def test_the_norms_share_a_mean_over_what_their_names_say() -> None:
    reach = {
        name: [sorted(set(axis)) for axis in norms.shared(norm).nonzero().T.tolist()]
        for name, norm in norms.NORMS.items()
    }
    first, every = [0], list(range(4))
    assert reach == {
        "batch norm": [[0, 1], first, every],
        "layer norm": [first, every, first],
        "group norm": [first, [0, 1], every],
        "instance norm": [first, first, every],
    }
    assert "batch norm: examples 2, channels 1, positions 4" in norms.draw().alt


def test_both_ways_through_a_residual_block_end_in_the_same_shape() -> None:
    assert residual.shapes(8, 16, 2, 32) == ["(8, 32, 32)", "(16, 16, 16)", "(16, 16, 16)"]
    assert "around through 1x1 conv, bn to (16, 16, 16)" in residual.draw(8, 16, stride=2).alt
    assert "around through identity to (8, 32, 32)" in residual.draw(8, 8).alt


def test_the_made_image_holds_a_letter_and_can_be_drawn() -> None:
    letter = images.letter()
    assert letter.shape == (24, 36, 3)
    assert letter.dtype == torch.uint8
    assert (letter == 247).all(dim=-1).sum() > 100
    assert images.draw({"letter": letter, "turned": letter.transpose(0, 1)}).alt
    with pytest.raises(ValueError, match=r"image 'bad' is torch.float32 of shape \(2, 3\)"):
        images.draw({"bad": torch.zeros(2, 3)})


EXPRESSIONS = ["a", "a + a", "(a * b + c) ** 2 + a", "sin(a * b) / exp(c) - relu(b)", "-a ** 2 * sigmoid(b)", "sqrt(a)"]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_values_and_gradients_are_those_of_torch_and_can_be_drawn(expression: str) -> None:
    leaves = {k: torch.tensor(v, dtype=torch.float64, requires_grad=True) for k, v in graph.VALUES.items()}
    result = eval(expression, {**graph.CALLS, **leaves})
    result.backward()
    nodes = graph.read(expression)
    assert nodes[-1].value.item() == pytest.approx(result.item())
    for node in nodes:
        if node.label in leaves:
            assert node.slope == pytest.approx(leaves[node.label].grad.item())  # type: ignore[union-attr]
    assert graph.draw(expression).alt.startswith(f"Graph of {expression}: ")


def test_no_two_boxes_of_a_graph_overlap() -> None:
    nodes = graph.read("(a * b + c) * (a - b) / (c + 2) + exp(a) * b")
    spots = list(graph.places(nodes).values())
    for i, (column, height) in enumerate(spots):
        assert all(other[0] != column or abs(other[1] - height) >= 1 for other in spots[:i])


def test_the_paths_of_optimizers_are_theirs() -> None:
    makers = {"slow": lambda p: torch.optim.SGD(p, 0.01), "fast": lambda p: torch.optim.SGD(p, 0.1)}
    slow, fast = (descent.visited(make, 5) for make in makers.values())
    assert torch.equal(slow[0], fast[0])
    torch.testing.assert_close(fast[1], fast[0] * torch.tensor([0.9, 0.0]))  # the slope is (x, 10 y)
    alt = descent.race(makers, 5).alt
    assert "slow ends at height" in alt
    assert "fast ends at height" in alt


def test_a_line_of_a_graph_runs_behind_no_box() -> None:
    boxes = [(1.5, 0.0), (1.5, 0.8), (3.0, 0.5)]
    points = graph.route((0.0, 0.3), (4.5, 0.3), boxes)
    for (x0, y0), (x1, y1) in pairwise(points):
        for share in torch.linspace(0, 1, 50).tolist():
            x, y = x0 + share * (x1 - x0), y0 + share * (y1 - y0)
            assert not any(bx < x < bx + graph.BOX and by < y < by + graph.TALL for bx, by in boxes)


REFUSED = ["x + 1", "a +", "__import__('os')", "a.grad", "", "a if b else c", "a + " * 40 + "a"]


@pytest.mark.parametrize("expression", REFUSED)
def test_what_cannot_be_drawn_is_explained_and_not_run(expression: str) -> None:
    with pytest.raises(graph.UnreadableError):
        graph.read(expression)
    assert graph.picture(expression).alt


def test_numbers_that_are_no_numbers_are_drawn_too() -> None:
    assert "log nan" in graph.picture("log(b)").alt
    assert graph.picture("1 / (a - 2)").alt


def test_a_path_follows_sgd() -> None:
    point = torch.nn.Parameter(torch.tensor(descent.START, dtype=torch.float64))
    optimizer = torch.optim.SGD([point], lr=0.03)
    for _ in range(5):
        optimizer.zero_grad()
        descent.valley(point).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    torch.testing.assert_close(descent.path(descent.valley, 0.03, 5)[-1], point.detach())


def test_the_valley_runs_away_beyond_two_over_its_curvature() -> None:
    for rate in (0.19, 0.21):
        said = descent.outcome(descent.valley, descent.path(descent.valley, rate))
        assert ("runs away" in said) == (rate > 0.2)


def test_kaiming_keeps_the_size_of_what_a_relu_passes_on_and_other_weights_do_not() -> None:
    kaiming = depth.measure(next(iter(depth.STARTS)), "relu", 16)
    assert 0.3 < kaiming[-1].activation / kaiming[0].activation < 3
    assert 0.3 < kaiming[0].gradient / kaiming[-1].gradient < 3
    small, large = (depth.measure(start, "relu", 8) for start in ("too small: 0.01", "too large: 0.3"))
    assert small[-1].activation < 1e-6 * small[0].activation
    assert large[-1].activation > 1e2 * large[0].activation


def test_a_histogram_counts_powers_of_ten_and_leaves_zeros_out() -> None:
    bars = depth.histogram(torch.tensor([0.0, 0.0, 1.5, 1.6, 150.0]))
    assert len(bars) == depth.BINS
    assert sorted(bars)[-2:] == [0.5, 1.0]
    assert sum(bars) == 1.5
    assert sum(depth.histogram(torch.zeros(3))) == 0
