"""The demos' maths against torch itself, and their drawing without a display."""

from __future__ import annotations

import matplotlib
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from torchcourse.demos import broadcasting, grids, images, live, strides, style

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


def is_png(picture: style.Picture) -> bool:
    return picture.png.startswith(b"\x89PNG") and len(picture.png) < 60_000


@pytest.mark.parametrize("view", VIEWS, ids=str)
def test_a_layout_reads_the_cells_that_the_view_reads(view: Tensor) -> None:
    plan = strides.layout(view)
    cells = [cell for _, row in plan.rows for cell in row]
    assert [plan.storage[cell] for cell in cells] == [f"{value:g}" for value in view.flatten().tolist()]
    assert str(tuple(view.shape)) in plan.facts


@pytest.mark.parametrize("view", VIEWS, ids=str)
def test_every_layout_can_be_drawn(view: Tensor) -> None:
    picture = strides.draw(view, "view")
    assert is_png(picture)
    assert picture.alt.startswith("view: shape")


def test_a_view_too_big_to_draw_is_refused_with_both_sizes() -> None:
    with pytest.raises(
        ValueError, match="1 rows over 100 stored elements; the picture has room for 9 rows over 24"
    ):
        strides.draw(torch.zeros(100))


@pytest.mark.parametrize("view", strides.VIEWS)
def test_each_offered_view_is_what_its_title_says(view: str) -> None:
    seen = strides.view_of(X, view, 1, 2, 2)
    assert torch.equal(seen, eval(view, {"x": X, "start": 1, "step": 2, "row": 2}))


def test_a_view_that_leaves_the_storage_is_explained_and_not_raised() -> None:
    picture = strides.picture(strides.VIEWS[-1], start=2, step=4, row=4)
    assert "x.as_strided((3, 4), (4, 4), 2) is refused: it would read cell 22" in picture.alt


@settings(deadline=None)
@given(SHAPES, SHAPES)
def test_alignment_agrees_with_torch(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    axes = broadcasting.align(a, b)
    try:
        wanted = f"result {tuple(torch.broadcast_shapes(a, b))}"
    except RuntimeError:
        wanted = "neither is 1"
    assert broadcasting.explain(axes).endswith(wanted)


@settings(max_examples=10, deadline=None)
@given(SHAPES, SHAPES)
def test_any_two_shapes_can_be_drawn(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    assert is_png(broadcasting.draw(a, b))


@pytest.mark.parametrize("text", ["4, 1, 3", "(4,1,3)", " 4 1 3 ", "[4, 1, 3,]"])
def test_a_shape_is_read_as_people_type_it(text: str) -> None:
    assert broadcasting.parse(text) == (4, 1, 3)


@pytest.mark.parametrize("text", ["4, x", "-1", "1 2 3 4 5 6 7", "3.5"])
def test_what_is_no_shape_is_said_in_the_picture(text: str) -> None:
    picture = broadcasting.picture(text, "2")
    assert is_png(picture)
    assert repr(text) in picture.alt


def test_a_stretched_grid_shows_what_broadcasting_repeats() -> None:
    grid, repeated = grids.stretched(torch.tensor([1, 2]), torch.Size((3, 2)))
    assert grid.tolist() == [[1, 2]] * 3
    assert repeated.tolist() == [[False] * 2, [True] * 2, [True] * 2]


def test_grids_can_be_drawn_and_say_their_numbers() -> None:
    assert is_png(grids.add(torch.arange(3)[:, None], torch.arange(4)))
    picture = grids.draw({"scores": X > 5}, scores=X.float() / 7, chosen=X > 5)
    assert is_png(picture)
    assert "'0.143'" in picture.alt
    with pytest.raises(ValueError, match="tensor has 3 dimensions"):
        grids.draw(x=torch.zeros(2, 2, 2))


def test_the_made_image_holds_a_letter_and_can_be_drawn() -> None:
    letter = images.letter()
    assert letter.shape == (24, 36, 3)
    assert letter.dtype == torch.uint8
    assert (letter == 247).all(dim=-1).sum() > 100
    assert is_png(images.draw({"letter": letter, "turned": letter.transpose(0, 1)}))
    with pytest.raises(ValueError, match=r"image 'bad' is torch.float32 of shape \(2, 3\)"):
        images.draw({"bad": torch.zeros(2, 3)})


def test_a_picture_carries_its_words_and_escapes_them() -> None:
    picture = style.Picture(b"png", 'a < "b"', 10)
    shown = picture._repr_mimebundle_(include=None, exclude=None)
    assert shown["text/plain"] == 'a < "b"'
    assert 'alt="a &lt; &quot;b&quot;" width="10"' in shown["text/html"]


def test_ink_can_be_read_on_every_colour() -> None:
    assert style.ink_on(style.BLUE) == "white"
    assert style.ink_on(style.PAPER) == style.ink_on(style.YELLOW) == style.ink_on(style.ORANGE) == style.INK


def test_drawing_needs_no_pyplot_and_keeps_no_figure() -> None:
    for _ in range(25):
        strides.draw(X)
    pyplot = matplotlib.pyplot if hasattr(matplotlib, "pyplot") else None
    assert pyplot is None or pyplot.get_fignums() == []


@pytest.mark.parametrize("explorer", [strides.explorer, broadcasting.explorer])
def test_an_explorer_redraws_when_a_control_moves(explorer: type[live.Live]) -> None:
    pytest.importorskip("ipywidgets")
    one = explorer()
    before = one.picture
    name, widget = next(iter(one.controls.items()))
    widget.value = strides.VIEWS[1] if name == "view" else "7, 7"
    assert one.picture.alt != before.alt
    assert one.values[name] == widget.value


def test_what_is_on_show_is_replaced_and_not_added_to() -> None:
    class Shown:
        def __init__(self) -> None:
            self.pictures: list[style.Picture] = []

        def display(self, *_: object, **__: object) -> Shown:
            return self

        def update(self, picture: style.Picture) -> None:
            self.pictures.append(picture)

    one, notebook = broadcasting.explorer(), Shown()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(live, "notebook", notebook)
        one.show()
        one.set("b", "5")
    assert [picture.alt for picture in notebook.pictures] == [one.picture.alt]


def test_without_widgets_the_picture_remains(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(live, "ipywidgets", None)
    monkeypatch.setattr(live, "notebook", None)
    strides.explore()
    assert capsys.readouterr().out.startswith("x: shape (3, 4)")
