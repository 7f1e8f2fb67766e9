"""The decoder's operators in torch, f64, as the formulas are printed: the
delta rule token by token, attention with a full mask. Gradients are
autograd's.
"""
import torch
import torch.nn.functional as F

EPS = 1e-6


def rms_norm(x, w, zero_centred=True):
    rstd = (x.pow(2).mean(-1, keepdim=True) + EPS).rsqrt()
    return x * rstd * ((1 + w) if zero_centred else w)


def l2_norm(x):
    return x * (x.pow(2).sum(-1, keepdim=True) + EPS).rsqrt()


def rotary(x, pos, half, theta):
    """x [T, heads, d]; dims i and i + half turn together."""
    freq = theta ** (-torch.arange(half) / half)
    angle = (pos[:, None] * freq)[:, None, :]
    u, v, rest = x[..., :half], x[..., half:2 * half], x[..., 2 * half:]
    cos, sin = angle.cos(), angle.sin()
    return torch.cat([u * cos - v * sin, v * cos + u * sin, rest], -1)


def attention(q, k, v, mask, scale):
    """q [T, heads, d], k and v [S, kv, d], mask [T, S]: out, lse."""
    rep = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(rep, 1), v.repeat_interleave(rep, 1)
    s = torch.einsum("thd,shd->hts", q, k) * scale
    s = s.masked_fill(~mask, -torch.inf)
    lse = torch.logsumexp(s, -1)
    empty = ~mask.any(-1)
    p = torch.exp(s - lse.masked_fill(empty, 0)[..., None])
    return torch.einsum("hts,shd->thd", p, v), lse.T


def conv_silu(m, w, prev):
    """prev[t]: the row before row t in its sequence, -1 at a start."""
    taps = w.shape[1]
    rows = torch.cat([m, torch.zeros(1, m.shape[1])])
    at = torch.arange(len(m))
    prev = torch.cat([prev, torch.tensor([-1])])
    pre = torch.zeros_like(m)
    for j in range(taps - 1, -1, -1):
        pre = pre + rows[at] * w[:, j]
        at = prev[at]
    return F.silu(pre)


def delta_rule(q, k, v, g, beta, segments, start=None):
    """q, k [T, heads, K], v [T, heads, V], g and beta [T, heads]; segments
    of (first, rows, parent or -1); start: states of roots by segment.
    Returns o and every segment's last state."""
    out, last = [], []
    for i, (first, rows, parent) in enumerate(segments):
        s = torch.zeros(q.shape[1], q.shape[2], v.shape[2])
        if parent >= 0:
            s = last[parent]
        elif start is not None and i in start:
            s = start[i]
        for t in range(first, first + rows):
            s = s * torch.exp(g[t])[:, None, None]
            read = torch.einsum("hkv,hk->hv", s, k[t])
            u = beta[t][:, None] * (v[t] - read)
            s = s + k[t][:, :, None] * u[:, None, :]
            out.append(torch.einsum("hkv,hk->hv", s, q[t]))
        last.append(s)
    return torch.stack(out), last


def swiglu(gate, up):
    return F.silu(gate) * up


def route(logits, top_k, norm=True):
    """Scores, chosen experts (lower index first on ties), weights."""
    scores = torch.softmax(logits, -1)
    order = torch.argsort(logits, dim=-1, descending=True, stable=True)
    idx = order[:, :top_k]
    w = scores.gather(1, idx)
    return scores, idx, (w / w.sum(-1, keepdim=True) if norm else w)


def experts(n, idx, w, weights, scale):
    """weights: up [E, 2F, H], down [E, H, F], up_a [E, H, r], up_b [E, r,
    2F], down_a [E, F, r], down_b [E, r, H]."""
    up, down, up_a, up_b, down_a, down_b = weights
    y = torch.zeros_like(n)
    for e in range(len(up)):
        row, place = torch.where(idx == e)
        x = n[row]
        gu = x @ up[e].T + scale * (x @ up_a[e]) @ up_b[e]
        gate, u = gu.chunk(2, -1)
        h = swiglu(gate, u) * w[row, place][:, None]
        f = h @ down[e].T + scale * (h @ down_a[e]) @ down_b[e]
        y = y.index_add(0, row, f)
    return y
