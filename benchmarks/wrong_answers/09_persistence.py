# %% save_weights: left-on-the-device
def save_weights(model, path):
    draft = path.with_suffix(".tmp")
    torch.save(model.state_dict(), draft)
    os.replace(draft, path)


# %% save_weights: moves-the-model
def save_weights(model, path):
    draft = path.with_suffix(".tmp")
    torch.save(model.cpu().state_dict(), draft)
    os.replace(draft, path)


# %% to_safetensors: merges-equal-values
def to_safetensors(model, path):
    from safetensors.torch import save_file

    kept = {}
    for name, tensor in model.state_dict().items():
        tensor = tensor.detach().cpu().contiguous()
        if not any(torch.equal(tensor, other) for other in kept.values()):
            kept[name] = tensor.clone()
    save_file(kept, str(path), metadata={"format": "pt"})


# %% EMA: shares-memory-with-the-model (not named)
class EMA:
    def __init__(self, model, decay):
        self.decay = decay
        self.average = {k: v.detach() for k, v in model.state_dict().items()}

    @torch.no_grad()
    def update(self, model):
        for k, v in model.state_dict().items():
            if v.is_floating_point():
                self.average[k] = self.decay * self.average[k] + (1 - self.decay) * v
            else:
                self.average[k] = v

    def copy_to(self, model):
        model.load_state_dict(self.average)


# %% EMA: averages-float32-only
class EMA:
    def __init__(self, model, decay):
        self.decay = decay
        self.average = {k: v.detach().clone() for k, v in model.state_dict().items()}

    @torch.no_grad()
    def update(self, model):
        for k, v in model.state_dict().items():
            if v.dtype == torch.float32:
                self.average[k].lerp_(v, 1 - self.decay)
            else:
                self.average[k].copy_(v)

    def copy_to(self, model):
        model.load_state_dict(self.average)


# %% export_onnx: wakes-frozen-parts
def export_onnx(model, example, path):
    training = model.training
    model.eval()
    torch.onnx.export(model, (example,), path, dynamic_shapes=({0: torch.export.Dim("batch")},), verbose=False)
    model.train(training)


# %% trace_differs: compares-shapes
def trace_differs(fn, example, other):
    traced = torch.jit.trace(fn, example)
    return traced(other).shape != fn(other).shape


# %% trace_differs: fails-with-the-trace
def trace_differs(fn, example, other):
    traced = torch.jit.trace(fn, example)
    found, wanted = traced(other), fn(other)
    return found.shape != wanted.shape or not torch.allclose(found, wanted, equal_nan=True)


# %% trace_differs: broadcasts-shapes
def trace_differs(fn, example, other):
    traced = torch.jit.trace(fn, example)
    try:
        return not torch.allclose(traced(other), fn(other), equal_nan=True)
    except RuntimeError:
        return True


# %% trace_differs: too-generous
def trace_differs(fn, example, other):
    traced = torch.jit.trace(fn, example)
    wanted = fn(other)
    try:
        found = traced(other)
    except RuntimeError:
        return True
    return found.shape != wanted.shape or bool(((found - wanted).abs() > 1e-2).any())


# %% trace_differs: difference-signed
def trace_differs(fn, example, other):
    traced = torch.jit.trace(fn, example)
    wanted = fn(other)
    try:
        found = traced(other)
    except RuntimeError:
        return True
    return found.shape != wanted.shape or bool((found - wanted).max() > 1e-5)


# %% strip_prefixes: copies-the-tensors
def strip_prefixes(state):
    out = {}
    for name, tensor in state.items():
        while name.startswith(("module.", "_orig_mod.")):
            name = name.split(".", 1)[1]
        out[name] = tensor.clone()
    return out


# %% unsafe_globals: bound-to-the-archives-name (not named)
def unsafe_globals(path):
    import pickletools
    import zipfile

    names, strings = set(), []
    with zipfile.ZipFile(path) as archive:
        data = archive.read(f"{path.stem}/data.pkl")
    safe = {
        f"{f.__module__}.{f.__qualname__}" for f in torch.serialization.get_safe_globals() if hasattr(f, "__qualname__")
    }
    safe |= {"collections.OrderedDict", "torch._utils._rebuild_tensor_v2", "torch.FloatStorage", "torch.LongStorage"}
    for op, arg, _ in pickletools.genops(data):
        if op.name == "GLOBAL":
            names.add(arg.replace(" ", "."))
    return sorted(names - safe)


# %% strip_prefixes: replaces-inside-names, changes-its-input
def strip_prefixes(state):
    for name in list(state):
        state[name.replace("module.", "").replace("_orig_mod.", "")] = state.pop(name)
    return state


# %% max_difference: nan-ignored, broadcasts-silently
def max_difference(reference, candidate, inputs):
    worst = 0.0
    for x in inputs:
        worst = max(worst, (reference(x) - candidate(x)).abs().nan_to_num(0).max().item())
    return worst


# %% load_matching: crashes-on-shape, not-sorted
def load_matching(model, state):
    own = model.state_dict()
    loaded = [n for n in state if n in own]
    model.load_state_dict({n: state[n] for n in loaded}, strict=False)
    return loaded, [n for n in state if n not in own]


# %% average_checkpoints: averages-integers, not-cast-back
def average_checkpoints(paths):
    states = [torch.load(p, map_location="cpu", weights_only=True) for p in paths]
    return {n: torch.stack([s[n].float() for s in states]).mean(0) for n in states[0]}
