# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 11 · Architectures
#
# Most networks that you will meet are built from three ideas. A convolution looks at a small window, and at the same
# window everywhere. A recurrent network reads a sequence step by step and carries a note along. Attention lets every
# position look at every other and decide what matters. This lesson takes each of them apart, has you write the part
# where people slip up, and compares it with torch's own module on the same weights.
#
# Along the way we train a small network of each kind, from your own parts: two that read handwritten digits, and one
# that writes sentences. Where a part is still missing, a stand-in takes its place, so every cell runs. There are twelve
# exercises. Nothing here needs a GPU or the internet. The networks are so small that threads would cost more than they
# save, so the lesson computes on one.

# %% tags=["setup"]
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from torchcourse import Unattempted, case, check, digits, hint

# %% tags=["demo"]
# %load_ext torchcourse

# %% tags=["demo"]
torch.set_num_threads(1)

# %% [markdown]
# ## Sizes of a convolution
#
# The first error that people get from a convolutional network is a shape that does not fit a few layers later. The
# cure is to be able to say the size of each output before running anything.
#
# Take a row of 7 numbers and a kernel of 3. Where can the kernel lie? It starts at position 0, 1, 2, 3 or 4: five places,
# so five outputs.

# %%
row = torch.arange(7.0).view(1, 1, 7)
for kernel, stride, padding, dilation in (
    (3, 1, 0, 1),
    (3, 2, 0, 1),
    (3, 1, 1, 1),
    (3, 1, 0, 2),
    (3, 3, 0, 2),
):
    conv = nn.Conv1d(1, 1, kernel, stride, padding, dilation)
    print(
        f"kernel {kernel}, stride {stride}, padding {padding}, dilation {dilation}: "
        f"{conv(row).shape[-1]}"
    )

# %% [markdown]
# - *Padding* `p` adds `p` zeros at each end, so the row gets longer by `2 * p`.
# - *Dilation* spreads the kernel out: with dilation 2 there is a hole between its entries, and a kernel of 3 spans 5 positions,
#   `dilation * (kernel - 1) + 1` in general.
# - *Stride* is the distance from one start to the next. With the kernel at the left end, what lies to its right is the
#   room that it can move in. Count the whole strides that fit into that room, and add one for the first place, which
#   costs no stride.
#
# Forget to add one, and a kernel as long as the row would have no output. In fact it has one:

# %%
print(nn.Conv1d(1, 1, 7)(row).shape)
try:
    nn.Conv1d(1, 1, 8)(row)
except RuntimeError as error:
    print(error)

# %% [markdown]
# ### Exercise: conv_output_size
#
# Write `conv_output_size(size, kernel, stride=1, padding=0, dilation=1)`: the length of a convolution's output along
# one dimension, as an int. If the kernel spans more than the padded input, raise `ValueError` with a message that
# contains the word `kernel` and the value of the argument `kernel`, not the span.
#
# ```
# conv_output_size(32, 3)                      # 30
# conv_output_size(32, 3, stride=2, padding=1) # 16
# ```

# %% exercise="conv_output_size" points=1
def conv_output_size(
    size: int, kernel: int, stride: int = 1, padding: int = 0, dilation: int = 1
) -> int:
    """How many outputs a convolution has along one dimension."""
    ### BEGIN SOLUTION
    room = size + 2 * padding - (dilation * (kernel - 1) + 1)
    if room < 0:
        raise ValueError(
            f"kernel {kernel} with dilation {dilation} does not fit into {size} with "
            f"padding {padding}"
        )
    return room // stride + 1
    ### END SOLUTION

# %% check="conv_output_size"
check("conv_output_size")

# %% [markdown]
# ## What one output sees
#
# A convolution of 3 sees three positions. Put another on top, and one output of the second sees three outputs of the first, whose
# windows overlap: five positions. How far an output can see is its *receptive field*. If it is smaller than the thing that you
# look for, no amount of training helps.
#
# No formula is needed to measure it. Make all weights one, take the gradient of one output, and see where it is not zero:

# %%
def seen_by_the_middle(*convs: nn.Conv1d) -> list[int]:
    x = torch.zeros(1, 1, 41, requires_grad=True)
    net = nn.Sequential(*convs)
    for parameter in net.parameters():
        nn.init.ones_(parameter)
    y = net(x)
    y[0, 0, y.shape[-1] // 2].backward()
    return x.grad[0, 0].nonzero().flatten().tolist()


print(seen_by_the_middle(nn.Conv1d(1, 1, 3), nn.Conv1d(1, 1, 3)))
print(seen_by_the_middle(nn.Conv1d(1, 1, 3, stride=2), nn.Conv1d(1, 1, 3)))
print(seen_by_the_middle(nn.Conv1d(1, 1, 3), nn.Conv1d(1, 1, 3, stride=2)))

# %% [markdown]
# The stride of the first layer made the second layer's window wider: two neighbours of its input lie 2 positions apart in the
# row. The stride of the last layer changed nothing. A stride counts for the layers *above* it, not for its own.
#
# So go through the layers from the input up and carry two numbers: how much is seen so far, and how far apart two neighbours
# lie by now. Below is the same on a digit. Darker orange means that a pixel reaches the output by more paths: the middle counts
# more than the rim.

# %% tags=["demo"]
from torchcourse.demos import receptive

image = F.interpolate(digits.load()[0][:1], size=(32, 32))[0, 0]
receptive.draw(
    image,
    one_layer=[(3, 1, 1)],
    three_layers=[(3, 1, 1)] * 3,
    with_strides=[(3, 2, 1), (3, 2, 1), (3, 1, 1)],
    with_dilation=[(3, 1, 1), (3, 1, 2), (3, 1, 4)],
)

# %% [markdown]
# ### Exercise: receptive_field
#
# Write `receptive_field(layers)`: `layers` is a list of `(kernel, stride, dilation)` from the input up. Return as an int the span
# from the first to the last input position that one output position depends on, both counted. Without any layer that is 1.
#
# ```
# receptive_field([(3, 1, 1), (3, 1, 1)])    # 5
# receptive_field([(3, 2, 1), (3, 1, 1)])    # 7
# ```

# %% exercise="receptive_field" points=2
def receptive_field(layers: list[tuple[int, int, int]]) -> int:
    """How many input positions one output position spans."""
    ### BEGIN SOLUTION
    seen, apart = 1, 1
    for kernel, stride, dilation in layers:
        seen += dilation * (kernel - 1) * apart
        apart *= stride
    return seen
    ### END SOLUTION

# %% check="receptive_field"
check("receptive_field")

# %% [markdown]
# ## Convolution by hand
#
# At each place, a convolution multiplies the window under it by the kernel, entry by entry and through all channels, and adds up. In
# signal processing a convolution flips the kernel first; in deep learning hardly anybody does (strictly it is a cross-correlation).
# One bright pixel shows it:

# %%
spot = torch.zeros(1, 1, 3, 3)
spot[0, 0, 1, 1] = 1
kernel = torch.arange(9.0).view(1, 1, 3, 3)
print(F.conv2d(spot, kernel, padding=1)[0, 0])

# %% [markdown]
# The picture of the kernel comes out turned by half a turn, because the window of the output at the top left had the
# spot at its bottom right. A flipped kernel would have come out upright.
#
# To compute it, a loop over all places would be far too slow. Loop over the places of the kernel instead, and shift the whole
# image; or make the windows first and multiply once. `F.unfold` lays each window out as a column:

# %%
picture = torch.arange(16.0).view(1, 1, 4, 4)
columns = F.unfold(picture, kernel_size=2, stride=2)
print(columns.shape)
print(columns[0])

# %% [markdown]
# Four windows of four numbers, in the order in which a weight `(c, kh, kw)` is stored: first channel, then row, then column. So
# one matrix product with the weights as rows does the rest. GPU libraries compute convolutions as such products too,
# without storing the windows.
#
# A grouped convolution (`groups=g`) cuts the channels into g parts that do not see each other. With as many groups as
# channels it is called depthwise, and costs a fraction:

# %%
for groups in (1, 4, 32):
    print(groups, nn.Conv2d(32, 32, 3, groups=groups, bias=False).weight.numel())

# %% [markdown]
# ### Exercise: conv2d
#
# Write `conv2d(x, weight, bias=None, stride=1, padding=0)` for `x` of shape `(n, c, h, w)`, where n may be 0, and `weight` of shape
# `(o, c, kh, kw)`. It gives what `F.conv2d` gives, gradients included. `stride` and `padding` are an int or a pair (rows, columns); a
# padding of `(2, 1)` adds two rows above and two below, one column on the left and one on the right. There are no groups here. Rule:
# use no convolution of torch, and the number of torch calls must not grow with the size of the image. `F.unfold` is allowed.
#
# ```
# conv2d(torch.ones(1, 1, 3, 3), torch.ones(1, 1, 2, 2))        # four times 4.
# conv2d(torch.ones(2, 3, 8, 8), torch.ones(5, 3, 3, 3), padding=1).shape    # (2, 5, 8, 8)
# ```

# %% exercise="conv2d" points=3
def conv2d(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, stride=1, padding=0
) -> Tensor:
    """What F.conv2d gives."""
    ### BEGIN SOLUTION
    (sy, sx), (py, px) = (
        (a, a) if isinstance(a, int) else a for a in (stride, padding)
    )
    _, _, kh, kw = weight.shape
    x = F.pad(x, (px, px, py, py))
    windows = x.unfold(2, kh, sy).unfold(3, kw, sx)
    y = torch.einsum("nchwij,ocij->nohw", windows, weight)
    return y if bias is None else y + bias.view(-1, 1, 1)
    ### END SOLUTION

# %% check="conv2d"
check("conv2d")

# %% [markdown]
# The best test of a part is torch's own module with the same weights. The `state_dict` of an `nn.Conv2d` holds `weight` and
# `bias`, which are the names of your arguments, so it can be handed over as it is. If yours passes, the two are compared, and the
# gradients that reach the image too:

# %% tags=["demo"]
from torchcourse.demos import parts

if own := parts.yours("conv2d", globals(), ""):
    theirs = nn.Conv2d(3, 4, 3, stride=2, padding=1)
    images = torch.randn(2, 3, 9, 7, requires_grad=True)
    out = own(images, **theirs.state_dict(), stride=2, padding=1)
    print("output:  ", torch.allclose(out, theirs(images), atol=1e-5))
    grads = [
        torch.autograd.grad(y.square().sum(), images)[0] for y in (out, theirs(images))
    ]
    print("gradient:", torch.allclose(*grads, atol=1e-4))

# %% [markdown]
# Enough for a network. Two convolutions and a linear layer read the digits of lesson 5, with your `conv2d` if it passes:

# %% tags=["demo"]
convolve = parts.yours("conv2d", globals()) or F.conv2d


class SmallCNN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Parameter(0.3 * torch.randn(8, 1, 3, 3))
        self.second = nn.Parameter(0.15 * torch.randn(16, 8, 3, 3))
        self.head = nn.Linear(16 * 2 * 2, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(convolve(x, self.first, padding=1).relu(), 2)
        x = F.max_pool2d(convolve(x, self.second, padding=1).relu(), 2)
        return self.head(x.flatten(1))

# %% tags=["demo"]
def train_on_digits(model: nn.Module, epochs: int, lr: float = 0.01) -> float:
    data = digits.split()
    images, labels = data["train"]
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    for _ in range(epochs):
        for rows in torch.randperm(len(images)).split(50):
            optimizer.zero_grad()
            F.cross_entropy(model(images[rows]), labels[rows]).backward()
            optimizer.step()
    images, labels = data["test"]
    with torch.no_grad():
        return (model(images).argmax(1) == labels).float().mean().item()


torch.manual_seed(0)
print(f"{train_on_digits(SmallCNN(), epochs=8):.1%} of the held-out digits")

# %% [markdown]
# ## Skips: ResNet and U-Net
#
# You wrote a residual block in lesson 3: it *adds* its input to what it computed. What that buys shows in a deep
# network. Here is the gradient that arrives at the input of 30 layers, without and with the sum:

# %%
torch.manual_seed(0)
layers = [nn.Linear(32, 32) for _ in range(30)]
for residual in (False, True):
    x = torch.randn(8, 32, requires_grad=True)
    y = x
    for layer in layers:
        y = y + layer(y).relu() if residual else layer(y).relu()
    y.sum().backward()
    print(
        "with the sum:   " if residual else "without the sum:",
        f"{x.grad.norm().item():.1e}",
    )

# %% [markdown]
# Without the sum hardly any gradient arrives; with it the gradient grows instead, and normalisation layers (batch norm,
# layer norm) keep that in bounds.
#
# A network that marks each pixel (tumour or not, road or not) has another problem. To know *what* it sees it must look at a large
# part of the image, so it pools, and pooling forgets *where* exactly things were. The U-Net keeps both: on the way
# down it remembers the features of each size, and on the way up it puts them beside what comes from below, before the next
# convolution. Beside means concatenated along the channels, so that the convolution can weigh the two itself:

# %%
sharp, coarse = torch.randn(1, 8, 12, 12), torch.randn(1, 16, 6, 6)
up = F.interpolate(coarse, size=sharp.shape[-2:])
print(torch.cat([sharp, up], dim=1).shape)

# %% [markdown]
# Two things go wrong. If the features are remembered *after* pooling, the sharp ones are gone already. And odd sizes come back
# wrong if you only double them: 7 pools to 3, and twice 3 is 6.

# %%
odd = torch.randn(1, 8, 7, 7)
small = F.max_pool2d(odd, 2)
print(
    small.shape[-2:],
    F.interpolate(small, scale_factor=2).shape[-2:],
    F.interpolate(small, size=odd.shape[-2:]).shape[-2:],
)

# %% [markdown]
# One more, about norms: with a batch of one and a smallest feature map of one pixel, a batch norm has one value per
# channel and raises in training. Use no norm, or an `nn.GroupNorm` with at least two channels in a group.

# %% [markdown]
# ### Exercise: TinyUNet
#
# Write `TinyUNet(channels, classes)`, `__init__` and `forward`, from images `(n, channels, h, w)` to scores `(n,
# classes, h, w)`, for any height and width of 4 or more. Convolutions at full size; pool by 2, convolutions; pool by
# 2, convolutions; upsample to the size before the second pooling, concatenate with the features of that size,
# convolutions; upsample to the full size, concatenate with the features of the full size, convolutions; and a last
# convolution to the classes, with nothing after it. The widths are up to you. A batch of one has to work in training
# mode too. (Do not call a part `half` or `float`: modules have methods of these names.)
#
# ```
# TinyUNet(3, 2)(torch.randn(1, 3, 9, 14)).shape    # (1, 2, 9, 14)
# ```

# %% exercise="TinyUNet" points=3
class TinyUNet(nn.Module):
    """Two levels down by pooling, two up, each joined to the features of its size."""

    def __init__(self, channels: int, classes: int) -> None:
        ### BEGIN SOLUTION
        super().__init__()

        def stage(inputs: int, outputs: int) -> nn.Sequential:
            return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU())

        self.large = stage(channels, 8)
        self.middle = stage(8, 16)
        self.bottom = stage(16, 32)
        self.middle_again, self.large_again = stage(32 + 16, 16), stage(16 + 8, 8)
        self.head = nn.Conv2d(8, classes, 1)

    def forward(self, x: Tensor) -> Tensor:
        large = self.large(x)
        middle = self.middle(F.max_pool2d(large, 2))
        bottom = self.bottom(F.max_pool2d(middle, 2))
        y = F.interpolate(bottom, size=middle.shape[-2:])
        y = self.middle_again(torch.cat([middle, y], dim=1))
        y = F.interpolate(y, size=large.shape[-2:])
        y = self.large_again(torch.cat([large, y], dim=1))
        return self.head(y)
        ### END SOLUTION

# %% check="TinyUNet"
check("TinyUNet")

# %% [markdown]
# Finished networks come with torchvision. To use one for classes of your own, replace its head, and know what the head is called:

# %% tags=["demo"]
from torchvision import models

backbone = models.resnet18(weights=None)
print(backbone.fc)
backbone.fc = nn.Linear(backbone.fc.in_features, 4)
print(backbone.eval()(torch.randn(2, 3, 64, 64)).shape)

# %% [markdown]
# `weights=None` starts from random numbers and needs no download; `weights="DEFAULT"` fetches the trained ones. An optimizer
# made before the swap still holds the old head.
#
# **Which norm?** In training mode, batch norm takes the statistics of each channel over the batch and all positions;
# layer norm, in every mode, takes those of each position over its features. So in training with batch norm an example's
# output depends on its neighbours, and in a sequence also on padding. (In eval mode, batch norm uses the averages that
# it kept while training, and each example is on its own.) A new module is in training mode. In the tensor of shape `(1,
# 6, 5)` below, layer norm treats the last dimension as 5 features, and batch norm treats dimension 1 as 6 channels:

# %%
one = torch.randn(1, 6, 5)
pair = torch.cat([one, 10 + torch.randn(1, 6, 5)])
layer_norm, batch_norm = nn.LayerNorm(5), nn.BatchNorm1d(6)
print("layer norm:", torch.allclose(layer_norm(pair)[:1], layer_norm(one)))
print("batch norm:", torch.allclose(batch_norm(pair)[:1], batch_norm(one)))

# %% [markdown]
# Images, large batches: batch norm. Sequences, or small batches: layer norm (or group norm for images).

# %% [markdown]
# ## Recurrent networks
#
# A recurrent network has one set of weights and uses it at each step: new note = f(input, old note). A plain one forgets fast,
# since its note is rewritten at each step. The LSTM keeps a second note, the *cell* c, which is changed only by
# gates, numbers between 0 and 1:
#
# ```
# i = sigmoid(...)    let in
# f = sigmoid(...)    keep
# g = tanh(...)       what is new
# o = sigmoid(...)    let out
# c = f * c + i * g
# h = o * tanh(c)
# ```
#
# The dots of each of the first four are a linear layer of x and h. torch stacks the weights of all four in two
# matrices, `weight_ih` for x and `weight_hh` for h, in this order: i, f, g, o. Other libraries use other orders, so
# weights from elsewhere may have to be rearranged:

# %%
cell = nn.LSTMCell(3, 2)
print({name: tuple(p.shape) for name, p in cell.named_parameters()})
h, c = cell(torch.randn(5, 3))
print(h.shape, c.shape)

# %% [markdown]
# `weight_ih` has 4 times 2 rows, one block each for i, f, g and o. The state defaults to zeros, as many rows as x,
# and it has to be made on the device of x and in its dtype. Note what comes back first: h, which the next layer
# reads. The cell c comes second.
#
# A GRU manages with two gates and one note, a plain RNN with one note and no gates. What each costs:

# %%
for kind in (nn.RNN, nn.GRU, nn.LSTM):
    print(
        f"{kind.__name__:4} {sum(p.numel() for p in kind(32, 64).parameters()):6} "
        "parameters"
    )

# %% [markdown]
# ### Exercise: LSTMCell
#
# Write `LSTMCell(input_size, hidden_size)`, `__init__` and `forward(x, state=None)`, which returns `(h, c)`.
# Parameters `weight_ih`, `weight_hh`, `bias_ih`, `bias_hh` have the shapes and the gate order of `nn.LSTMCell`, so
# that its `state_dict` loads. `x` is `(b, input_size)` or a single row `(input_size,)`. `state` is `(h, c)`, each
# `(b, hidden_size)`, or `(hidden_size,)` for a single row; it is not changed. None means zeros, on the device of x
# and in its dtype. Which numbers the parameters start with is up to you, as long as they are finite; `nn.LSTMCell`
# draws all four uniformly between -1/sqrt(hidden_size) and 1/sqrt(hidden_size). Rule: no recurrent module or function
# from torch.
#
# ```
# mine = LSTMCell(3, 2)
# mine.load_state_dict(nn.LSTMCell(3, 2).state_dict())
# h, c = mine(torch.randn(5, 3))    # both (5, 2)
# ```

# %% exercise="LSTMCell" points=3
class LSTMCell(nn.Module):
    """One step of an LSTM, with the names, shapes and gate order of nn.LSTMCell."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        ### BEGIN SOLUTION
        super().__init__()
        bound = hidden_size**-0.5

        def uniform(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.empty(shape).uniform_(-bound, bound))

        self.weight_ih = uniform(4 * hidden_size, input_size)
        self.weight_hh = uniform(4 * hidden_size, hidden_size)
        self.bias_ih, self.bias_hh = uniform(4 * hidden_size), uniform(4 * hidden_size)

    def forward(
        self, x: Tensor, state: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        if state is None:
            zeros = x.new_zeros(*x.shape[:-1], self.weight_hh.shape[1])
            state = zeros, zeros
        h, c = state
        gates = F.linear(x, self.weight_ih, self.bias_ih) + F.linear(
            h, self.weight_hh, self.bias_hh
        )
        i, f, g, o = gates.chunk(4, dim=-1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        return o.sigmoid() * c.tanh(), c
        ### END SOLUTION

# %% check="LSTMCell"
check("LSTMCell")

# %% [markdown]
# Does it read like torch's? The names fit, so the weights of one go straight into the other. Ten steps in a row, so that a wrong
# note would be carried along and grow:

# %% tags=["demo"]
Cell = parts.yours("LSTMCell", globals()) or nn.LSTMCell
mine, theirs = Cell(8, 6), nn.LSTMCell(8, 6)
mine.load_state_dict(theirs.state_dict())
ours = expected = None
for step in torch.randn(10, 4, 8):
    ours, expected = mine(step, ours), theirs(step, expected)
for name, a, b in zip("hc", ours, expected):
    print(name, torch.allclose(a, b, atol=1e-5))

# %% [markdown]
# A whole sequence is a loop over its steps. `nn.LSTM` does that for you, in one call; one of its defaults surprises
# people. The steps come first unless you say `batch_first=True`, and nothing tells you when you mix up steps and batch,
# since `(5, 7, 3)` is a valid shape either way:

# %%
lstm = nn.LSTM(3, 2, batch_first=True)
outputs, (h_n, c_n) = lstm(torch.randn(5, 7, 3))
print(outputs.shape, h_n.shape, torch.equal(outputs[:, -1], h_n[0]))

# %% [markdown]
# And a long sequence makes a long graph. To train on text of a million steps, cut it: carry the state over, but detach it. This is
# *truncated* backpropagation through time. The state still remembers; only the gradient ends.

# %%
state = None
for chunk in torch.randn(5, 12, 3).split(4, dim=1):
    out, state = lstm(chunk, state)
    out.sum().backward()
    state = tuple(s.detach() for s in state)
print("three chunks, three graphs;", state[0].requires_grad)

# %% [markdown]
# ## The last real step
#
# Sequences in a batch differ in length, so the short ones are padded. Then `outputs[:, -1]` is, for all but the longest, what the
# network says after reading padding. It runs, it trains a little worse, and nobody notices:

# %%
lengths = torch.tensor([5, 2, 3])
batch = torch.randn(3, 5, 3)
with torch.no_grad():
    outputs, _ = lstm(batch)
    alone, _ = lstm(batch[1:2, :2])
print(outputs[1, -1], outputs[1, 1], alone[0, -1])

# %% [markdown]
# Alone, the sequence of length 2 ends with the second of these, not with the first.
#
# torch's own way is to *pack*: `pack_padded_sequence` hands over only the real steps, and `h_n` is then right by itself. The
# lengths must be on the CPU for it, and `enforce_sorted=False` allows any order:

# %%
packed = nn.utils.rnn.pack_padded_sequence(
    batch, lengths, batch_first=True, enforce_sorted=False
)
with torch.no_grad():
    _, (h_n, _) = lstm(packed)
print(h_n[0, 1])

# %% [markdown]
# Choosing the right step from the padded outputs is an indexing problem, with a trap at length 0: index -1 is not
# an error in Python, it is the last column.

# %% [markdown]
# ### Exercise: last_real
#
# Write `last_real(outputs, lengths)`: from `(b, t, d)` and int64 `(b,)` to `(b, d)`, the output at each sequence's last real step. A length of 0
# gives zeros, and no length exceeds t. It is differentiable. What comes after the last real step, NaN included, changes neither the
# result nor its gradients. `t` may be 0. Rule: the number of torch calls must not grow with b.
#
# ```
# last_real(torch.tensor([[[1.0], [2.0], [9.0]]]), torch.tensor([2]))    # [[2.]]
# ```

# %% exercise="last_real" points=2
def last_real(outputs: Tensor, lengths: Tensor) -> Tensor:
    """Each sequence's output at its last real step; zeros for an empty one."""
    ### BEGIN SOLUTION
    b, _, d = outputs.shape
    shifted = torch.cat([outputs.new_zeros(b, 1, d), outputs], dim=1)
    return shifted[torch.arange(b, device=outputs.device), lengths]
    ### END SOLUTION

# %% check="last_real"
check("last_real")

# %% [markdown]
# An LSTM can read a digit too, as a sequence of eight rows of eight pixels:

# %% tags=["demo"]
take_last = parts.yours("last_real", globals(), "outputs[:, -1]") or (
    lambda outputs, lengths: outputs[:, -1]
)


class RowReader(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell, self.head = Cell(8, 48), nn.Linear(48, 10)

    def forward(self, images: Tensor) -> Tensor:
        state, outputs = None, []
        for row in images[:, 0].unbind(1):
            state = self.cell(row, state)
            outputs.append(state[0])
        return self.head(
            take_last(torch.stack(outputs, 1), torch.full((len(images),), 8))
        )


torch.manual_seed(0)
print(f"{train_on_digits(RowReader(), epochs=10):.1%} of the held-out digits")

# %% [markdown]
# ## Attention, and its masks
#
# A recurrent network passes everything through one note. Attention drops the note: each position asks all others
# directly. A *query* is compared with each *key*, the softmax turns the scores into shares, and the result is the
# mixture of the *values*. You wrote the scores in lesson 1. The whole thing is two lines, and torch has it as one call:

# %%
q, k, v = (torch.randn(1, 1, 4, 8) for _ in range(3))
scores = q @ k.mT / 8**0.5
by_hand = scores.softmax(-1) @ v
print(torch.allclose(by_hand, F.scaled_dot_product_attention(q, k, v), atol=1e-6))

# %% [markdown]
# A mask forbids pairs: a query may not look at padding, and in a model that writes text no position may look ahead. The
# idea is simple, and yet this is where most attention code goes wrong, because True does not mean the same everywhere.
# With t queries and s keys:
#
# | where | shape | True means |
# |---|---|---|
# | a padding mask of data (lessons 1 and 4) | `(b, t)` | real |
# | `nn.MultiheadAttention`: `key_padding_mask` | `(b, s)` | **ignore** |
# | `nn.MultiheadAttention`: `attn_mask` | `(t, s)` or `(b * h, t, s)` | **forbidden** |
# | `F.scaled_dot_product_attention`: `attn_mask` | broadcasts to `(b, h, t, s)` | may attend |
#
# Side by side, for one sequence with three real steps and one padded step:

# %%
torch.manual_seed(0)
real = torch.tensor([[True, True, True, False]])
x = torch.randn(1, 4, 8)
module = nn.MultiheadAttention(8, 1, batch_first=True)
_, weights = module(x, x, x, key_padding_mask=~real)
_, inverted = module(x, x, x, key_padding_mask=real)
print("right:   ", weights[0, 0].tolist())
print("inverted:", inverted[0, 0].tolist())

# %% [markdown]
# The inverted one looks at nothing but padding. No error, and shapes that fit.
#
# What should a row do in which *everything* is forbidden? A softmax of nothing but minus infinity is 0/0:

# %%
nothing = torch.zeros(1, 1, 4, 4, dtype=torch.bool)
print(
    "plain softmax:         ",
    scores.masked_fill(~nothing, -torch.inf).softmax(-1)[0, 0, 0],
)
print(
    "nn.MultiheadAttention: ",
    module(x, x, x, key_padding_mask=torch.ones(1, 4, dtype=torch.bool))[0][
        0, 0, :3
    ].detach(),
)
print(
    "SDPA:                  ",
    F.scaled_dot_product_attention(q, k, v, attn_mask=nothing)[0, 0, 0, :3],
)

# %% [markdown]
# NaN, NaN and 0. One NaN in a batch makes the gradient of every shared weight NaN. In the second case the NaN is there because
# the weights are asked for, which is the default; with `need_weights=False` the module goes through SDPA.
#
# Rows like that happen: a sequence that is all padding. Padded *queries* are harmless, since nobody reads their results. So a mask
# forbids keys, which are columns, and padded rows keep the same keys as all others. If you forbid all keys to padded queries
# as well, no real query gains anything, and the padded ones become rows in which everything is forbidden. The masks
# for the sequence above:

# %% tags=["demo"]
from torchcourse.demos import grids

keys = real[:, None, :].expand(1, 4, 4)[0]
causal = torch.ones(4, 4, dtype=torch.bool).tril()
grids.draw({"real keys": keys, "not ahead": causal, "both": keys & causal},
           **{"real keys": keys, "not ahead": causal, "both": keys & causal})

# %% [markdown]
# A row is a query, a column a key, orange means may attend. The diagonal stays: a position may look at itself.

# %% [markdown]
# ### Exercise: attention_mask
#
# Write `attention_mask(real, causal=False)`: from bool `(b, t)`, True = real, to bool `(b, 1, t, t)` in SDPA's convention, True = may attend.
# It is True exactly where the key is real and, with `causal=True`, not ahead of the query. Padded queries keep their keys.
#
# ```
# attention_mask(torch.tensor([[True, True, False]]), causal=True)[0, 0]
# # [[True, False, False],
# #  [True, True,  False],
# #  [True, True,  False]]
# ```

# %% exercise="attention_mask" points=2
def attention_mask(real: Tensor, causal: bool = False) -> Tensor:
    """Which query may attend to which key: (b, 1, t, t), True = may attend."""
    ### BEGIN SOLUTION
    b, t = real.shape
    mask = real[:, None, None, :].expand(b, 1, t, t)
    if causal:
        mask = mask & torch.ones(t, t, dtype=torch.bool, device=real.device).tril()
    return mask
    ### END SOLUTION

# %% check="attention_mask"
check("attention_mask")

# %% [markdown]
# ## Attention with heads
#
# One softmax gives one mixture. To look at several things at once, the features are cut into *heads*, each with
# queries, keys and values of its own, and the results are put side by side again. Cutting is a `view`, and here is
# where people slip up in this section. The features of one position belong together, so the view splits the *last*
# dimension; only then do the heads move forward:

# %%
steps = torch.arange(12).view(1, 3, 4)  # three positions of four features
right = steps.view(1, 3, 2, 2).transpose(1, 2)
wrong = steps.view(1, 2, 3, 2)
print("first head, right:", right[0, 0].tolist())
print("first head, wrong:", wrong[0, 0].tolist())

# %% [markdown]
# The right one has the first two features of each of the three positions. The wrong one has the right shape, and mixes
# positions.
#
# Scores are divided by the root of the size of a *head*, since that many products were added up. In torch's module the three
# projections are stacked in `in_proj_weight`: the rows of q, then k, then v. So its weights can be poured into any module that
# stacks them alike, and that is the best test there is:

# %%
module = nn.MultiheadAttention(8, 2, batch_first=True)
print({name: tuple(p.shape) for name, p in module.named_parameters()})

# %% [markdown]
# ### Exercise: MultiHeadAttention
#
# Write `MultiHeadAttention(dim, heads)`, `__init__` and `forward(x, mask=None)`: one Linear `qkv` (dim to 3·dim, rows
# q, k, v), one Linear `proj` (dim to dim). For x of shape `(b, t, dim)` it gives what `nn.MultiheadAttention` gives
# for `(x, x, x)` with the same weights. `mask` is bool, broadcasts to `(b, heads, t, t)`, True = may attend. A query
# that may look nowhere gives any finite output, and finite gradients. Rule: no attention module from torch;
# `F.scaled_dot_product_attention` is allowed.
#
# ```
# MultiHeadAttention(8, 2)(torch.randn(3, 5, 8)).shape    # (3, 5, 8)
# ```

# %% exercise="MultiHeadAttention" points=3
class MultiHeadAttention(nn.Module):
    """Self-attention with heads: qkv, attention in each head, proj."""

    def __init__(self, dim: int, heads: int) -> None:
        ### BEGIN SOLUTION
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        q, k, v = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in self.qkv(x).chunk(3, dim=-1)
        )
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.proj(mixed.transpose(1, 2).flatten(2))
        ### END SOLUTION

# %% check="MultiHeadAttention"
check("MultiHeadAttention")

# %% [markdown]
# If yours passes, here is the test with the weights of torch's module, the keys of its `state_dict` renamed to fit
# yours:

# %% tags=["demo"]
if Own := parts.yours("MultiHeadAttention", globals(), ""):
    mine = Own(8, 2)
    theirs = module.state_dict()
    mine.load_state_dict(
        {
            "qkv.weight": theirs["in_proj_weight"],
            "qkv.bias": theirs["in_proj_bias"],
            "proj.weight": theirs["out_proj.weight"],
            "proj.bias": theirs["out_proj.bias"],
        }
    )
    print(torch.allclose(mine(x), module(x, x, x)[0], atol=1e-6))

# %% [markdown]
# ## The transformer block
#
# A transformer repeats one block: positions exchange what they know (attention), then each thinks for itself (two linear
# layers with a GELU, four times as wide in between). Around each of the two is a residual sum, and a layer norm. Where the norm
# stands decides how deep you can go. The first transformers normalised *after* the sum. Today's do it *before*, inside
# the branch, so that the sum itself runs through the whole model untouched:
#
# | post-norm | pre-norm |
# |---|---|
# | `x = ln1(x + attn(x))` | `x = x + attn(ln1(x))` |
# | `x = ln2(x + mlp(x))` | `x = x + mlp(ln2(x))` |
#
# Same cost, same parameters. A task that shows the difference: sequences of eight letters, drawn from ten; the answer at
# every position is the letter that the sequence begins with. With two blocks both learn it; with twenty-four, one does not.

# %% tags=["demo"]
from torchcourse.demos import curves


def losses(norm_first: bool, depth: int, steps: int = 60) -> list[float]:
    torch.manual_seed(0)
    embed, head = nn.Embedding(10, 32), nn.Linear(32, 10)
    blocks = nn.ModuleList(
        [parts.Block(32, 2, norm_first=norm_first) for _ in range(depth)]
    )
    places = nn.Parameter(torch.randn(8, 32))
    optimizer = torch.optim.Adam(
        [places, *embed.parameters(), *blocks.parameters(), *head.parameters()], lr=2e-3
    )
    history = []
    for _ in range(steps):
        letters = torch.randint(10, (32, 8))
        h = embed(letters) + places
        for block in blocks:
            h = block(h)
        loss = F.cross_entropy(
            head(h).flatten(0, 1), letters[:, :1].expand(-1, 8).flatten()
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        history.append(loss.item())
    return history


series = {f"{'pre' if first else 'post'}-norm, {depth} blocks": losses(first, depth)
          for depth in (2, 24) for first in (True, False)}
curves.draw(series, "loss by step")

# %% [markdown]
# Guessing among ten letters costs ln 10 = 2.30. With 24 blocks, post-norm is still guessing long after pre-norm has
# learned the task. A learning rate that starts low (the warm-up of lesson 5) was needed to train the first
# transformers; pre-norm can do without.
#
# Each branch has a norm of its own: the block holds two, with weights of their own.

# %% [markdown]
# ### Exercise: TransformerBlock
#
# Write `TransformerBlock(dim, heads, mlp_ratio=4)`, pre-norm, `__init__` and `forward(x, mask=None)`, which returns x
# after these two steps:
#
# ```
# x = x + attn(ln1(x), mask)
# x = x + mlp(ln2(x))
# ```
#
# The four parts are attributes of these names. `mlp` is a Linear from dim to `mlp_ratio * dim`, the exact GELU (torch's
# default), and a Linear back. No dropout. `attn(x, mask)` returns one tensor, as your `MultiHeadAttention` does; you
# may use that class here. If you skipped that exercise, write a module of another name in this cell that calls
# `nn.MultiheadAttention`. Mind that its `attn_mask` means the opposite of yours, True = forbidden, and has the shape
# `(t, t)` or `(b * heads, t, t)`. So on the way a mask of yours is inverted with `~`, and one of shape `(b, 1, t, t)`,
# as `attention_mask` gives it, also becomes three-dimensional: `(~mask).expand(b, heads, t, t).flatten(0, 1)`. The
# check puts an attention of its own in the place of `attn`, so how yours computes does not count.
#
# ```
# TransformerBlock(8, 2)(torch.randn(3, 5, 8)).shape    # (3, 5, 8)
# ```

# %% exercise="TransformerBlock" points=2
class TransformerBlock(nn.Module):
    """Attention and a small MLP, each behind a norm and beside a sum."""

    def __init__(self, dim: int, heads: int, mlp_ratio: int = 4) -> None:
        ### BEGIN SOLUTION
        super().__init__()
        self.ln1 = nn.LayerNorm(dim)
        self.attn = MultiHeadAttention(dim, heads)
        self.ln2 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(
            nn.Linear(dim, mlp_ratio * dim), nn.GELU(), nn.Linear(mlp_ratio * dim, dim)
        )

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        x = x + self.attn(self.ln1(x), mask)
        return x + self.mlp(self.ln2(x))
        ### END SOLUTION

# %% check="TransformerBlock"
check("TransformerBlock")

# %% [markdown]
# torch's own block is `nn.TransformerEncoderLayer`, with `norm_first=True` for pre-norm. Its parts have other names, so the
# keys of its `state_dict` are renamed on the way. That is most of the work whenever weights come from somebody else's code:

# %% tags=["demo"]
theirs = nn.TransformerEncoderLayer(
    16, 4, 64, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
)
renamed = {
    "norm1": "ln1",
    "self_attn.in_proj_": "attn.qkv.",
    "self_attn.out_proj": "attn.proj",
    "norm2": "ln2",
    "linear1": "mlp.0",
    "linear2": "mlp.2",
}
weights = theirs.state_dict()
for old, new in renamed.items():
    weights = {name.replace(old, new): value for name, value in weights.items()}
print(*weights)
if Own := parts.yours("TransformerBlock", globals(), ""):
    mine = Own(16, 4)
    if set(mine.state_dict()) == set(weights):
        mine.load_state_dict(weights)
        steps, past = torch.randn(3, 6, 16), torch.ones(6, 6, dtype=torch.bool).tril()
        expected = theirs(steps, src_mask=~past)    # True means ignore
        print("as torch's:", torch.allclose(mine(steps, past), expected, atol=1e-5))
    else:
        print("Your parts have other names inside:", *mine.state_dict())

# %% [markdown]
# ## Decoding with a cache
#
# A model that writes text runs once for each new token. Each time, all earlier keys and values would be computed again, though they
# have not changed: in a causal model, the past does not see what comes later. So they are kept, in a *KV cache*, and only
# the new token goes through the model. Its query then meets all keys: the old ones and its own.
#
# Here is the trap. With one query and four keys, `is_causal=True` looks like the natural thing to say:

# %%
torch.manual_seed(0)
k, v = torch.randn(1, 1, 4, 8), torch.randn(1, 1, 4, 8)
newest = torch.randn(1, 1, 1, 8)
out = F.scaled_dot_product_attention(newest, k, v, is_causal=True)
print(torch.allclose(out, v[:, :, :1]))
print(
    torch.ones(1, 4, dtype=torch.bool).tril(),
    torch.ones(1, 4, dtype=torch.bool).tril(4 - 1),
)

# %% [markdown]
# The result is value 0, and nothing else: `is_causal` counts the triangle from the top left corner, so query 0 sees key
# 0. But our query is the *newest*. It stands at the end, so the triangle has to be counted from the bottom right: of t
# queries and s keys, the cached ones included, query i is at position `s - t + i`. This matters again when several
# tokens come at once (a prompt in pieces): each may see the whole cache, itself, and the new tokens before it.
#
# And do not write into the caller's cache. Whoever tries two continuations of one beginning would find both in it.

# %% [markdown]
# ### Exercise: cached_attention
#
# Write `cached_attention(q, k, v, cache=None)`: put the t new `k`, `v` of shape `(b, h, t, d)` behind those in the
# cache, and attend causally with `q` of the same shape, with scores scaled by 1/sqrt(d). Return `(out, cache)`, the
# cache being whatever you want to get back in the next call. However a sequence is split into calls of at least one
# token, the outputs together are those of a single call. The caller's cache is not changed.
#
# ```
# whole, _ = cached_attention(q, k, v)
# first, cache = cached_attention(q[:, :, :2], k[:, :, :2], v[:, :, :2])
# rest, cache = cached_attention(q[:, :, 2:], k[:, :, 2:], v[:, :, 2:], cache)
# torch.cat([first, rest], dim=2)    # the same as whole
# ```

# %% exercise="cached_attention" points=3
def cached_attention(
    q: Tensor, k: Tensor, v: Tensor, cache=None
) -> tuple[Tensor, object]:
    """Causal attention of new queries to all keys so far;
    and the cache for the next call."""
    ### BEGIN SOLUTION
    if cache is not None:
        k, v = torch.cat([cache[0], k], dim=2), torch.cat([cache[1], v], dim=2)
    new, known = q.shape[2], k.shape[2]
    mask = torch.ones(new, known, dtype=torch.bool, device=q.device).tril(known - new)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask), (k, v)
    ### END SOLUTION

# %% check="cached_attention"
check("cached_attention")

# %% [markdown]
# ## Grouped queries
#
# The cache is what fills memory when many people are served at once: keys and values, for each layer, head and token.
# So let several query heads share one key head. With 32 query heads and 8 key heads the cache is a quarter of the size,
# and the quality hardly suffers, which is why most large models do it.

# %%
layers, heads, size, tokens = 32, 32, 128, 8192
for key_heads in (32, 8, 1):
    print(
        f"{key_heads:2} key heads: "
        f"{2 * layers * key_heads * size * tokens * 2 / 2**30:.2f} GiB in 16 bits"
    )

# %% [markdown]
# Which query head shares with which? The first four with key head 0, the next four with key head 1: neighbours together. Repeating
# has to keep that order, and the two functions that repeat do it differently:

# %%
heads = torch.tensor([0, 1])
print(heads.repeat_interleave(3), heads.repeat(3))

# %% [markdown]
# ### Exercise: grouped_query_attention
#
# Write `grouped_query_attention(q, k, v)`: queries `(b, h, t, d)`, keys and values `(b, g, s, d)`, with h a multiple of g. Query head i uses key head
# `i // (h // g)`. No mask, scale 1/sqrt(d), output `(b, h, t, d)`. Rule: not `enable_gqa=True`, which would do it for you.
#
# ```
# q, k = torch.randn(2, 6, 5, 8), torch.randn(2, 3, 7, 8)
# grouped_query_attention(q, k, k).shape    # (2, 6, 5, 8)
# ```

# %% exercise="grouped_query_attention" points=2
def grouped_query_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attention in which several query heads share a key head."""
    ### BEGIN SOLUTION
    share = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(share, dim=1), v.repeat_interleave(share, dim=1)
    return F.scaled_dot_product_attention(q, k, v)
    ### END SOLUTION

# %% check="grouped_query_attention"
check("grouped_query_attention")

# %% [markdown]
# ## A model that writes
#
# Now a language model, from your blocks. It reads characters. An `nn.Embedding` gives each character a vector, a second
# one gives each *place* a vector; without it, attention that sees everything could not tell the order, since a mixture
# has none (a causal mask alone gives only a hint of it):

# %%
shuffled = [2, 0, 3, 1]
print(
    torch.allclose(
        module(x, x, x)[0][:, shuffled], module(*[x[:, shuffled]] * 3)[0], atol=1e-6
    )
)

# %% [markdown]
# Shuffle the input, and the output is shuffled alike: nothing else has changed. The text is made up, simple, and has rules to be found:

# %% tags=["demo"]
text = parts.sentences(400)
letters = sorted(set(text))
codes = {letter: code for code, letter in enumerate(letters)}
data = torch.tensor([codes[letter] for letter in text])
print(text[:90], len(text), len(letters), sep="\n")

# %% tags=["demo"]
Block = parts.yours("TransformerBlock", globals()) or parts.Block
make_mask = parts.yours("attention_mask", globals()) or parts.mask_of


class Writer(nn.Module):
    def __init__(
        self, vocabulary: int, dim: int = 48, depth: int = 2, longest: int = 48
    ) -> None:
        super().__init__()
        self.longest = longest
        self.letters = nn.Embedding(vocabulary, dim)
        self.places = nn.Embedding(longest, dim)
        self.blocks = nn.ModuleList([Block(dim, 4) for _ in range(depth)])
        self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, vocabulary)

    def forward(self, ids: Tensor) -> Tensor:
        ids = ids[:, -self.longest:]
        mask = make_mask(torch.ones_like(ids, dtype=torch.bool), causal=True)
        h = self.letters(ids) + self.places(
            torch.arange(ids.shape[1], device=ids.device)
        )
        for block in self.blocks:
            h = block(h, mask)
        return self.head(self.norm(h))

# %% [markdown]
# Every position predicts the next character, so one sequence gives 48 training examples at once. The mask is what keeps it honest: without it
# each position would simply look at its answer, the loss would fall to nothing, and the model could not write a word.

# %% [markdown]
# Does the mask really keep each position from its answer? Derivatives tell, even before training: where the scores at
# position i do not depend on the vector at position j, the derivative is zero. `dependencies` of lesson 10 shows for
# which pairs it is not. (If you have yours, paste it into a cell above and run this again; else torch's `jacobian`
# does the same.)

# %% tags=["demo"]
def by_jacobian(fn, x: Tensor) -> Tensor:
    n = len(x)
    jacobian = torch.autograd.functional.jacobian(fn, x)
    return (jacobian.reshape(n, -1, n, x[0].numel()) != 0).any(dim=3).any(dim=1)


depends = (
    parts.yours("dependencies", globals(), "torch.autograd.functional.jacobian")
    or by_jacobian
)


def reads(model: nn.Module, mask: Tensor | None):
    """The function from the vectors of one text to its scores, position by position."""

    def scores(vectors: Tensor) -> Tensor:
        h = vectors[None]
        for block in model.blocks:
            h = block(h, mask)
        return model.head(model.norm(h))[0]

    return scores


torch.manual_seed(0)
untrained, vectors = Writer(len(letters)), torch.randn(7, 48)
looking_back = make_mask(torch.ones(1, 7, dtype=torch.bool), causal=True)
tables = {
    "with the mask": depends(reads(untrained, looking_back), vectors),
    "without": depends(reads(untrained, None), vectors),
}
grids.draw(tables, **tables)

# %% [markdown]
# A row is an output, a column an input, orange means depends on. With the mask, nothing stands above the diagonal, through both
# blocks: step t does not see step t + 1. Without it every position sees every other, its own answer included.

# %% tags=["demo"]
torch.manual_seed(0)
writer = Writer(len(letters))
optimizer = torch.optim.AdamW(writer.parameters(), lr=3e-3)
history = []
for step in range(300):
    starts = torch.randint(len(data) - 49, (32,))
    windows = data[starts[:, None] + torch.arange(49)]
    loss = F.cross_entropy(
        writer(windows[:, :-1]).flatten(0, 1), windows[:, 1:].flatten()
    )
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    history.append(loss.item())
curves.draw({"loss": history}, "the next character")

# %% [markdown]
# Turning the scores for the next character into text takes a choice. Always taking the largest (*greedy*) gives the
# same text each time, and tends to go round in circles. Or draw at random, according to the probabilities, after two
# changes. The *temperature* divides the scores before the softmax: below 1 the favourites gain, above 1 the outsiders.
# *Top-k* admits only the k largest, so that no outsider can slip in. (The code below also lets through what is equal to
# the k-th largest.)

# %%
scores = torch.tensor([3.0, 2.0, 0.0, -1.0])
for temperature in (0.5, 1.0, 2.0):
    print(temperature, (scores / temperature).softmax(0))
print(
    "top 2:",
    scores.masked_fill(scores < scores.topk(2).values[-1], -torch.inf).softmax(0),
)

# %% [markdown]
# A loop around a model has duties of its own. It builds no graph, which would only cost time and memory (and with a
# cache that is kept, memory that grows with each token). It runs the model in eval mode, or dropout disturbs the
# choice, and restores each submodule's mode afterwards. The scores to use are those of the *last* position. And in a
# batch, rows end at different times: a row that has written its end token `eos` gets only `eos` from then on, while the
# others go on.

# %% [markdown]
# ### Exercise: generate
#
# Write `generate(model, ids, max_new, *, temperature=1.0, top_k=None, eos=None, generator=None)`: append up to
# `max_new` tokens to `ids` of shape `(b, t)` and return all. `model(ids)` gives scores `(b, t, vocab)`. Each token is
# drawn from the softmax of scores / temperature among the `top_k` largest (a `top_k` larger than the vocabulary means
# all of them; scores tied with the k-th largest may be kept or dropped); temperature 0 takes the largest. After its
# `eos` a row gets only `eos`, and you may stop once all have it; an `eos` in the prompt does not count. Draw with
# `generator` if there is one. Build no graph, run the model in eval mode, and give every submodule its mode back.
#
# ```
# generate(model, torch.tensor([[1, 2]]), 3, temperature=0).shape    # (1, 5)
# ```

# %% exercise="generate" points=3
def generate(
    model: nn.Module,
    ids: Tensor,
    max_new: int,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    eos: int | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """ids with up to max_new tokens behind them, as the model continues."""
    ### BEGIN SOLUTION
    def choose(scores: Tensor) -> Tensor:
        if temperature == 0:
            return scores.argmax(dim=-1)
        if top_k is not None:
            least = scores.topk(min(top_k, scores.shape[-1])).values[:, -1:]
            scores = scores.masked_fill(scores < least, -torch.inf)
        return torch.multinomial(
            (scores / temperature).softmax(-1), 1, generator=generator
        )[:, 0]

    modes = {module: module.training for module in model.modules()}
    done = torch.zeros(len(ids), dtype=torch.bool, device=ids.device)
    model.eval()
    try:
        with torch.no_grad():
            for _ in range(max_new):
                token = choose(model(ids)[:, -1])
                if eos is not None:
                    token = token.masked_fill(done, eos)
                    done = done | (token == eos)
                ids = torch.cat([ids, token[:, None]], dim=1)
    finally:
        for module, mode in modes.items():
            module.training = mode
    return ids
    ### END SOLUTION

# %% check="generate"
check("generate")

# %% [markdown]
# What has the model learned? Here are an untrained model and ours, both greedy, after the same beginning. If your
# `generate` passes, it writes; else a bare loop does.

# %% tags=["demo"]
def bare_loop(
    model: nn.Module, ids: Tensor, max_new: int, temperature: float
) -> Tensor:
    with torch.no_grad():
        for _ in range(max_new):
            ids = torch.cat([ids, model(ids)[:, -1:].argmax(-1)], dim=1)
    return ids


write = parts.yours("generate", globals(), "a bare loop") or bare_loop
start = torch.tensor([[codes[letter] for letter in "the old "]])
for name, model in (("untrained", Writer(len(letters))), ("trained", writer)):
    print(f"--- {name}")
    print(
        "".join(
            letters[code] for code in write(model, start, 90, temperature=0)[0].tolist()
        )
    )

# %% [markdown]
# Where does it look? The first block's first head, on a short text, with shares computed by hand from the weights that the block holds:

# %% tags=["demo"]
from torchcourse.demos import attention_map

words = list("the fox sings")
ids = torch.tensor([[codes[letter] for letter in words]])


def shares_of_first_head(block: nn.Module) -> Tensor:
    held = {tuple(p.shape): p for p in block.parameters()}
    weight = held.get((144, 48), torch.zeros(144, 48))
    bias = held.get((144,), torch.zeros(144))
    norm = next(part for part in block.modules() if isinstance(part, nn.LayerNorm))
    h = norm(writer.letters(ids) + writer.places(torch.arange(len(words))))
    q, k, _ = F.linear(h, weight, bias).chunk(3, dim=-1)
    scores = q[0, :, :12] @ k[0, :, :12].T / 12**0.5
    return scores.masked_fill(torch.ones(13, 13).triu(1).bool(), -torch.inf).softmax(-1)


attention_map.draw(
    shares_of_first_head(writer.blocks[0]).detach(),
    words,
    "one head of the first block",
)

# %% [markdown]
# The upper right is empty: nobody looks ahead.

# %% [markdown]
# ## What each of them costs
#
# Parameters take memory, as activations and a KV cache do too, and the number of operations is a first estimate of
# the time. Parameters and operations can be counted before anything is trained. A counter of floating-point
# operations gives twice the number of products, since each is followed by an addition:

# %%
from torch.utils.flop_counter import FlopCounterMode

def cost(name: str, layer: nn.Module, *inputs: Tensor) -> None:
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        layer(*inputs)
    print(
        f"{name:22}{sum(p.numel() for p in layer.parameters()):9} parameters "
        f"{counter.get_total_flops() / 1e6:8.1f} MFLOPs"
    )


cost("convolution 3x3", nn.Conv2d(64, 64, 3, padding=1), torch.randn(1, 64, 16, 16))
cost(
    "the same, depthwise",
    nn.Conv2d(64, 64, 3, padding=1, groups=64),
    torch.randn(1, 64, 16, 16),
)
cost("linear", nn.Linear(64, 64), torch.randn(1, 256, 64))
for steps in (256, 1024):
    tokens = torch.randn(1, steps, 64)
    cost(
        f"attention, {steps} steps",
        nn.MultiheadAttention(64, 4, batch_first=True),
        tokens,
        tokens,
        tokens,
    )

# %% [markdown]
# The convolution uses every one of its weights at each of 256 pixels. And attention's cost grows faster than the text:
# four times the steps cost more than ten times as much, because each looks at each. In lesson 13 we come back to that.
#
# ## What you have seen
#
# | idea | remember |
# |---|---|
# | sizes | strides that fit into the room, rounded down, plus one |
# | receptive field | a stride counts for the layers above it |
# | convolution | no flip; loop over the kernel or unfold, never over the image |
# | skips | add to pass gradients on, concatenate to keep what is sharp; interpolate to a size |
# | norms | in training, batch norm sees the neighbours; layer norm never does |
# | LSTM | i, f, g, o; `(h, c)`; `batch_first`; the last *real* step |
# | masks | ask what True means; forbid keys, not queries; an empty row is NaN or 0 |
# | heads | view the last dimension, then transpose; scale by the head's size |
# | blocks | pre-norm, two sums, two norms |
# | cache | count the triangle from the bottom right; leave the caller's cache alone |
# | generating | last position, eval mode, no graph, row by row |
#
# Next comes **lesson 12, distributed**: one model trained by several processes at once.
