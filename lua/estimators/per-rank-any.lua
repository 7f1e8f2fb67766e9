-- Every rank on its own rows and its own experts' pairs, layer by layer, at
-- every CP and EP: the same bytes as the estimator per-rank-any
-- (src/price/per_rank_any.c, layer_peaks.c), and a place to begin with the
-- next one.
local pricing = require "pricing"
local add = pricing.add

local ELEMENT <const>, F32 <const> = 2, 4
local MiB <const> = 1 << 20
local HALF <const> = MiB // 2       -- what a large block keeps on average
local SMALL <const> = 512           -- what others are rounded up to

local function slack(bytes) return bytes > MiB and HALF or SMALL end

local function boundary_slack(bytes)
  if bytes <= MiB or bytes > 4 * MiB then return slack(bytes) end
  return HALF * 3 // 2
end

-- ---- an instant: terms, tensors, and how many of them are large blocks ----

local function instant() return {terms = {}, blocks = 0, tensors = 0} end

local function put(t, category, n, rows, width)
  local bytes = rows * width
  add(t.terms, category, n * bytes)
  if bytes > MiB then t.blocks = t.blocks + n end
  t.tensors = t.tensors + n
end

local function put_act(t, category, n, rows, elements)
  put(t, category, n, rows, elements * ELEMENT)
end

local function put_records(at, t)
  local n = 10 * math.max(1, at.n_stage)
  put(t, "attention_records", 1, 1, at.records)
  t.blocks = t.blocks + math.min(n, at.records // (2 * MiB))
  t.tensors = t.tensors + n
end

-- f32 statistics of norms, gates and their sums, and the adapters' rows.
local function statistics(at)
  local m, rank = at.f.model, at.f.lora_rank
  if at.kind == "gdn" then
    return m.v_heads * (6 * F32 + ELEMENT) + 3 * rank * ELEMENT
  end
  return (m.q_heads + m.kv_heads) * F32 + 4 * rank * ELEMENT
end

local function halo(m)
  return (m.conv - 1) * pricing.widths(m).conv * ELEMENT
end

local function put_mixer(at, t)
  local m, w, c = at.f.model, pricing.widths(at.f.model), at.kind
  put_act(t, c, at.converted and 2 or 1, at.rows, m.hidden)
  put(t, c, 1, at.rows, statistics(at))
  if c == "gdn" then
    put_act(t, c, 1, at.rows, w.conv)
    put_act(t, c, 5, at.rows, w.value)
    put_act(t, c, 2, at.rows, w.wide)
    put_act(t, c, 1, at.rows, 64 * m.v_heads)
    put(t, c, 1, at.states, w.state * F32)
    put(t, c, 1, at.states, halo(m))
    return
  end
  put_act(t, c, 1, at.rows, (m.attn_gate and 2 or 1) * w.q + 2 * w.kv)
  put_act(t, c, m.attn_gate and 5 or 3, at.rows, w.q)
  put_act(t, c, 2, at.rows, w.kv)
  put_records(at, t)
end

local function put_routing(at, t)
  local f, m = at.f, at.f.model
  local routing, shared_state = pricing.routing_state(f)
  local row, shared = m.hidden * ELEMENT, at.moe.shared
  put(t, "moe_routing", 1, at.rows, routing)
  put(t, "moe_routing", 1, at.rows, m.top_k * (8 + 2 * F32))
  put(t, "moe_experts", 1, at.pairs, F32)
  t.tensors = t.tensors + 8
  if shared == 0 then return end
  put(t, "shared_expert", shared // row, at.rows, row)
  put(t, "shared_expert", 1, at.rows, shared_state)
  put(t, "shared_expert", 1, at.rows, F32 + 3 * f.lora_rank * ELEMENT)
end

local function put_pairs(at, t)
  local m, elements = at.f.model, MiB // ELEMENT
  if at.pairs * m.hidden > elements then t.blocks = t.blocks + 4 end
  if at.pairs * m.expert_ffn > elements then t.blocks = t.blocks + 3 end
  t.tensors = t.tensors + 16
end

-- The MoE of the recompute (pricing.md 3).
local function recompute(at)
  local t, m = instant(), at.f.model
  local routed = pricing.ceil_div(at.pairs, m.top_k)
  local most, dispatch = 0, 0
  for _, p in ipairs(at.moe.peaks) do
    local bytes = routed * (p.per_row - p.shared) + p.fixed
    if bytes > most then most, dispatch = bytes, routed * p.dispatch end
  end
  put_mixer(at, t)
  put_routing(at, t)
  put(t, "residual_norm", 2, at.rows, m.hidden * ELEMENT + F32)
  put(t, "moe_dispatch", 1, 1, dispatch)
  put(t, "moe_experts", 1, 1, most - dispatch)
  put_pairs(at, t)
  return t
end

-- The experts' backward, through FC2 or FC1.
local function experts_backward(at)
  local t, m, rank = instant(), at.f.model, at.f.lora_rank
  local h, ff = m.hidden, m.expert_ffn
  local e = rank > 0 and math.max(8, rank) or 0
  local unit = m.experts // at.f.parallel.ep * e * ELEMENT
  local grad_up, grad_down = unit * math.max(h, 2 * ff),
                             unit * math.max(h, ff)
  local padding = rank > 0 and rank < 8 and unit * (h + 2 * ff) or 0
  local down = at.pairs * (2 * h + 5 * ff + 3 * e) * ELEMENT
  local up = at.pairs * (3 * h + 2 * ff + 2 * e) * ELEMENT
  if not (at.fresh and padding == 0) then
    down, up = down + grad_down, up + grad_up
  end
  down = down + padding // (h + 2 * ff) * (ff + h)
  put_mixer(at, t)
  put_routing(at, t)
  put(t, "residual_norm", 3, at.rows, h * ELEMENT + F32)
  put(t, "moe_experts", 1, 1, math.max(down, up) + padding)
  put_pairs(at, t)
  return t
end

local function put_residual(at, t)
  local row = at.f.model.hidden * ELEMENT
  put(t, at.kind, at.converted and 2 or 1, at.rows, row)
  put(t, "residual_norm", 1, at.out_rows, row)
  put(t, "residual_norm", 1, at.rows, F32)
  put(t, "input_gradient", 1, at.rows, row)
end

local function gdn_backward(at)
  local t, m, w = instant(), at.f.model, pricing.widths(at.f.model)
  put_act(t, "gdn", 1, at.rows, w.conv)
  put_act(t, "gdn", 6, at.rows, w.wide)
  put_act(t, "gdn", 7, at.rows, w.value)
  put_act(t, "gdn", 1, at.rows, 64 * m.v_heads)
  put(t, "gdn", 1, at.rows, statistics(at) + 2 * m.v_heads * F32)
  put_act(t, "gdn", 2, at.chunks, w.state)
  put(t, "gdn", 2, at.states, w.state * F32)
  put(t, "gdn", 1, at.states, halo(m))
  t.tensors = t.tensors + 16
  put_residual(at, t)
  return t
end

local function attention_backward(at)
  local t, m, w = instant(), at.f.model, pricing.widths(at.f.model)
  local gate, c = m.attn_gate and 1 or 0, "attention"
  put_act(t, c, 1, at.rows, (1 + gate) * w.q + 2 * w.kv)
  put_act(t, c, 4 + gate, at.rows, w.q)
  put_act(t, c, 2, at.rows, w.kv)
  put(t, c, 1, at.rows, w.q * F32)
  put(t, c, 2, at.rows, w.kv * F32)
  put(t, c, 1, at.rows, statistics(at) + m.q_heads * F32)
  put_act(t, c, 2, at.stage_q, w.q)
  put(t, c, 1, at.stage_q, m.q_heads * F32)
  put(t, c, 2, at.stage_k, w.kv * F32)
  put(t, c, 1, at.sent, 2 * w.kv * F32)
  t.tensors = t.tensors + 8
  put_records(at, t)
  put_residual(at, t)
  return t
end

-- The dearest instant, and the gradients at it.
local function layer_peak(at, above, own)
  local best = {bytes = -1}
  local function take(t, gradients)
    local bytes = pricing.sum(t.terms) + gradients + t.blocks * HALF
    if bytes > best.bytes then
      best = {at = t, gradients = gradients, bytes = bytes}
    end
  end
  take(recompute(at), above)
  take(experts_backward(at), above + own)
  take(at.kind == "gdn" and gdn_backward(at) or attention_backward(at),
       above + own)
  return best
end

-- ---- what a layer is given ------------------------------------------------

local function pairs_of(f, group, rank, layer)
  if group.routed_pairs then return group.routed_pairs[rank][layer] end
  local ep, rows = f.parallel.ep, 0
  local first = rank - (rank - 1) % ep
  for r = first, math.min(first + ep - 1, f.parallel.cp) do
    rows = rows + pricing.rows(group, r, f.model.kinds[layer])
  end
  return pricing.ceil_div(rows * f.model.top_k, ep)
end

local function most_sent(group, rank)
  local most, all = 0, 0
  for _, stages in ipairs(group.stages) do all = math.max(all, #stages) end
  for i = 1, all do
    local sum = 0
    for r, stages in ipairs(group.stages) do
      local s = stages[i]
      if r ~= rank and s and not s["local"] then
        sum = sum + math.min(s.k, group.attention_rows[rank])
      end
    end
    most = math.max(most, sum)
  end
  return most
end

local function attention_layers(f, group, rank, at)
  at.records, at.sent, at.n_stage = 0, 0, 1
  at.stage_q, at.stage_k = at.rows, at.rows
  if f.parallel.cp == 1 then return at end
  if group.attention_retained then
    at.records = group.attention_retained[rank]
    return at
  end
  local stages = group.stages[rank]
  at.records = pricing.records(f, stages, group.attention_rows[rank])
  at.n_stage, at.sent = #stages, most_sent(group, rank)
  at.stage_q, at.stage_k = 0, 0
  for _, s in ipairs(stages) do
    at.stage_q = math.max(at.stage_q, pricing.padded(s.q_len, f.block[1]))
    at.stage_k = math.max(at.stage_k, pricing.padded(s.k_len, f.block[2]))
  end
  return at
end

local function layers_of(f, moe, group, rank, kind)
  local at = {f = f, moe = moe, kind = kind,
              rows = pricing.rows(group, rank, kind)}
  if kind == "attention" then return attention_layers(f, group, rank, at) end
  at.states = group.gdn_states and group.gdn_states[rank]
              or (at.rows > 0 and 1 or 0)
  at.chunks = group.gdn_chunks and group.gdn_chunks[rank]
              or pricing.ceil_div(at.rows, 64)
  return at
end

-- ---- gradients in what boundaries left ------------------------------------

local function hole_slack(bytes, boundary)
  if bytes <= MiB or boundary == 0 then return slack(bytes) // 2 end
  local rest = pricing.round_up(bytes, boundary) - bytes
  return math.max(HALF // 2, rest <= MiB and rest // 2 or 0)
end

-- SITES: the adapters that a layer may have, two tensors each.
local SITES <const> = 15

local function gradient_slack(f, group, rank)
  local m = f.model
  local unit = m.experts // f.parallel.ep * f.lora_rank * ELEMENT
  local row, sum = m.hidden * ELEMENT, 2 * SITES * SMALL
  for _, side in ipairs{m.hidden, 2 * m.expert_ffn, m.expert_ffn,
                        m.hidden} do
    sum = sum + math.max(
      hole_slack(unit * side, group.attention_rows[rank] * row),
      hole_slack(unit * side, group.gdn_rows[rank] * row))
  end
  return sum
end

-- ---- a rank ---------------------------------------------------------------

local function walk_layers(f, moe, group, rank, pending, above, beside, take)
  local at, row = {}, f.model.hidden * ELEMENT
  local boundaries, kept, held = beside.boundaries, beside.slack, 0
  local each = gradient_slack(f, group, rank)
  for layer = f.layers, 1, -1 do
    local kind = f.model.kinds[layer]
    at[kind] = at[kind] or layers_of(f, moe, group, rank, kind)
    local a, own = at[kind], pending and pending[layer] or 0
    a.pairs, a.fresh = pairs_of(f, group, rank, layer), own > 0
    a.converted = f.parallel.cp > 1
                  and pricing.input_layout(f.model, layer) ~= kind
    a.out_rows = pricing.rows(group, rank,
                              pricing.output_layout(f.model, layer))
    local peak = layer_peak(a, above, own)
    if own > 0 then held = held + each end
    local incoming = a.out_rows * row
    local rounding = kept + slack(incoming) + peak.at.blocks * HALF
                     + peak.at.tensors * SMALL
    if peak.gradients > 0 then rounding = rounding + held end
    local terms = peak.at.terms
    terms.boundaries, terms.rounding = boundaries, rounding
    add(terms, "input_gradient", incoming)
    add(terms, "adapter_gradients", peak.gradients)
    take(kind, terms)
    above = above + own
    local saved = pricing.boundary(f, group, rank, layer)
    boundaries, kept = boundaries - saved, kept - boundary_slack(saved)
  end
end

local function group_boundaries(f, group, rank)
  local sum, kept = 0, 0
  for layer = 1, f.layers do
    local bytes = pricing.boundary(f, group, rank, layer)
    sum, kept = sum + bytes, kept + boundary_slack(bytes)
  end
  return sum, kept
end

local function total(list)
  local sum = 0
  for _, n in ipairs(list) do sum = sum + n end
  return sum
end

-- The largest instant of each kind of layer.
local function rank_layers(f, moe, rank, beside)
  local best, left = {}, pricing.left_behind(f, rank)
  local function take(kind, terms)
    if best[kind] == nil or pricing.sum(terms) > pricing.sum(best[kind]) then
      best[kind] = terms
    end
  end
  for i, group in ipairs(f.groups) do
    local pending, others = pricing.pending(f, group), left(group.slot)
    local above = others + (pending and pending[f.layers + 1] or 0)
    walk_layers(f, moe, group, rank, pending, above, beside, take)
    for o, other in ipairs(f.groups) do
      if pending and o ~= i and other.slot == group.slot then
        local after = {slack = beside.slack, boundaries = beside.boundaries
                       - group_boundaries(f, other, rank)}
        walk_layers(f, moe, group, rank, nil, others + total(pending), after,
                    take)
      end
    end
  end
  return best
end

local function buffer_slack(bytes)
  local rest = pricing.round_up(bytes, 2 * MiB) - bytes
  return math.max(slack(bytes),
                  bytes > MiB and rest <= MiB and rest or 0)
end

local function rank_head(f, rank, beside)
  local m, rows, all = f.model, 0, 0
  for _, group in ipairs(f.groups) do
    rows = math.max(rows, group.attention_rows[rank])
    all = all + total(group.attention_rows)
  end
  local chunk, row = math.min(512, f.head_rows, rows), m.hidden * ELEMENT
  local logits = chunk * m.vocab * ELEMENT
  local _, at_head = pricing.walks(f, rank)
  local terms = {boundaries = beside.boundaries}
  add(terms, "adapter_gradients", at_head)
  add(terms, "head", rows * (3 * row + F32) + 3 * logits
                     + chunk * (f.head_rows < all and 2 or 1) * row)
  add(terms, "rounding", beside.slack + 3 * boundary_slack(rows * row)
                         + 2 * slack(chunk * row) + 3 * buffer_slack(logits))
  return terms
end

local function common(f, rank)
  local m, te, cold = f.model, pricing.cold(f)
  local rows, terms = 0, {}
  for _, group in ipairs(f.groups) do
    rows = rows + group.attention_rows[rank]
  end
  add(terms, "outputs", f.output_bytes)
  add(terms, "hybridep", pricing.hybridep_growth(f))
  add(terms, "other", rows * (256 + m.rotary_dim * F32))   -- their state
  if cold > 0 then
    add(terms, "workspace", te + 32 * MiB
                            + m.max_positions * (m.rotary_dim // 2) * F32)
  end
  return terms
end

return estimator{
  name = "per-rank-any.lua",
  price = function(f)
    local why = pricing.refuses(f) or pricing.refuses_layouts(f)
    if why == nil and f.model.experts == 0 then
      why = "dense model: kept-rank prices each rank of one"
    end
    if why == nil and f.load_cv then why = "no quantiles of routing here" end
    if why then return nil, why end
    local moe, raw, best = pricing.moe(f, true, false), 0, nil
    local function take(terms)
      local bytes = pricing.sum(terms)
      if bytes > raw then raw, best = bytes, terms end
    end
    for rank = 1, f.parallel.cp do
      local beside, shared = {boundaries = 0, slack = 0}, common(f, rank)
      for _, group in ipairs(f.groups) do
        local bytes, kept = group_boundaries(f, group, rank)
        beside.boundaries = beside.boundaries + bytes
        beside.slack = beside.slack + kept
      end
      local layers = rank_layers(f, moe, rank, beside)
      for _, kind in ipairs{"attention", "gdn"} do
        if layers[kind] then take(pricing.join(layers[kind], shared)) end
      end
      if f.head_rows > 0 then
        take(pricing.join(rank_head(f, rank, beside), shared))
      end
    end
    return {raw = raw, terms = best}
  end,
}
