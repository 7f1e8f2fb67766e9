-- Every rank on its own rows and its own experts' pairs, layer by layer, at
-- every CP and EP: the same bytes as the estimator per-rank-any
-- (src/price/per_rank_any.c, layer_peaks.c), and a place to begin with the
-- next one.
local pricing = require "pricing"
local slack = require "slack"
local add = pricing.add

local ELEMENT <const>, F32 <const>, I32 <const> = 2, 4, 4
local MiB <const> = 1 << 20

-- ---- an instant: its terms, and its tensors as the allocator sees them ----

-- loose: some of more than 1 MiB are as large as rows make them.
local function instant()
  return {terms = {}, list = {}, small = 0, loose = false}
end

local function list(t, n, bytes) t.list[#t.list + 1] = {n, bytes} end

local function list_rows(t, n, bytes)
  list(t, n, bytes)
  t.loose = t.loose or n > 0 and bytes > MiB
end

local function more(t, n) t.small = t.small + n end

local function blocks_of(t, base, hole)
  local b = slack.blocks(base, hole)
  for _, x in ipairs(t.list) do slack.add(b, x[1], x[2]) end
  b.tensors = b.tensors + t.small
  return b
end

-- Of states, or of rows that the kernel pads to whole blocks.
local function put_whole(t, category, n, rows, width)
  local bytes = rows * width
  add(t.terms, category, n * bytes)
  list(t, n, bytes)
end

local function put(t, category, n, rows, width)
  put_whole(t, category, n, rows, width)
  t.loose = t.loose or n > 0 and rows * width > MiB
end

local function put_act(t, category, n, rows, elements)
  put(t, category, n, rows, elements * ELEMENT)
end

local STAGE_TENSORS <const> = 11

-- Of stages, of which there are so many bytes.
local function put_records(at, stages, sum, t)
  add(t.terms, "attention_records", sum)
  if at.stages then
    pricing.records(at.f, stages, at.own,
                    function(n, bytes) list(t, n, bytes) end)
  else
    list(t, STAGE_TENSORS, at.records // STAGE_TENSORS)
  end
end

-- The adapters' rank-wide rows, of n of them.
local function put_ranks(at, category, n, t)
  put_act(t, category, n, at.rows, at.f.lora_rank)
end

local function halo(m)
  return (m.conv - 1) * pricing.widths(m).conv * ELEMENT
end

-- What the convolution keeps of a row: two i32; the decay's factor of a head.
local function put_gdn_marks(at, t)
  put(t, "gdn", 2, at.rows, I32)
  put_act(t, "gdn", 1, 1, at.f.model.v_heads)
end

-- In f32 three norms, a and the sum of g; beta, twice; a mask.
local function put_gdn(at, t)
  local m, w = at.f.model, pricing.widths(at.f.model)
  put_act(t, "gdn", 1, at.rows, w.conv)
  put_act(t, "gdn", 5, at.rows, w.value)
  put_act(t, "gdn", 2, at.rows, w.wide)
  put_act(t, "gdn", 1, at.rows, 64 * m.v_heads)
  put(t, "gdn", 5, at.rows, m.v_heads * F32)
  put_act(t, "gdn", 2, at.rows, m.v_heads)
  put(t, "gdn", 1, at.rows, 1)
  put_gdn_marks(at, t)
  put_ranks(at, "gdn", 3, t)
  put_whole(t, "gdn", 1, at.states, w.state * F32)
  put(t, "gdn", 1, at.states, halo(m))
end

local function put_mixer(at, t)
  local m, w, c = at.f.model, pricing.widths(at.f.model), at.kind
  put_act(t, c, at.converted and 2 or 1, at.rows, m.hidden)
  put(t, c, 1, at.rows, F32)
  if c == "gdn" then return put_gdn(at, t) end
  put_act(t, c, 1, at.rows, (m.attn_gate and 2 or 1) * w.q + 2 * w.kv)
  put_act(t, c, m.attn_gate and 5 or 3, at.rows, w.q)
  put_act(t, c, 2, at.rows, w.kv)
  put(t, c, 1, at.rows, m.q_heads * F32)
  put(t, c, 1, at.rows, m.kv_heads * F32)
  put_ranks(at, c, 4, t)
  put_records(at, at.stages, at.records, t)
end

-- A gated shared expert has two outputs until the MoE's forward returns.
local function put_routing(at, forward, t)
  local f, m = at.f, at.f.model
  local routing, shared_state = pricing.routing_state(f)
  local row, shared = m.hidden * ELEMENT, at.moe.shared
  local scores = m.experts * F32
  put(t, "moe_routing", 1, at.rows, scores)
  put(t, "moe_routing", 1, at.rows, math.max(0, routing - scores))
  put(t, "moe_routing", 1, at.rows, m.top_k * (8 + 2 * F32))
  put(t, "moe_experts", 1, at.pairs, F32)
  more(t, 8)
  if shared == 0 then return end
  put(t, "shared_expert", shared // row - (forward and 0 or 1), at.rows, row)
  put(t, "shared_expert", 1, at.rows, shared_state)
  put(t, "shared_expert", 1, at.rows, F32 + 3 * f.lora_rank * ELEMENT)
end

-- ---- the experts' tensors -------------------------------------------------

-- A pair's results of FC1 (2F wide), activations (F) and rows (H), and the
-- adapters' (e wide); weights converted for the grouped adapters: of FC1 (H,
-- 2F), of FC2 (F, H); and of a gradient made apart how many H and F it is wide.
local function experts(sums, acts, rows, ranks, up, down, h, f)
  return {sums = sums, acts = acts, rows = rows, ranks = ranks, up = up,
          down = down, h = h or 0, f = f or 0}
end

-- Bytes of a converted weight's column, and of a pair's rank-wide row.
local function rank_widths(at)
  local rank = at.f.lora_rank
  if rank == 0 then return 0, 0 end
  local e = math.max(8, rank) * ELEMENT
  return at.f.model.experts // at.f.parallel.ep * e, e
end

local function list_experts(at, t, x)
  local m = at.f.model
  local h, f, unit, e = m.hidden, m.expert_ffn, rank_widths(at)
  list_rows(t, x.rows, at.pairs * h * ELEMENT)
  list_rows(t, x.sums, at.pairs * 2 * f * ELEMENT)
  list_rows(t, x.acts, at.pairs * f * ELEMENT)
  list_rows(t, x.ranks, at.pairs * e)
  list(t, x.up + x.down, unit * h)
  list(t, x.up, unit * 2 * f)
  list(t, x.down, unit * f)
  list(t, x.h + x.f > 0 and 1 or 0, unit * (x.h * h + x.f * f))
end

local function experts_bytes(at, x)
  local m = at.f.model
  local h, f, unit, e = m.hidden, m.expert_ffn, rank_widths(at)
  return at.pairs * ((x.rows * h + (2 * x.sums + x.acts) * f) * ELEMENT
                     + x.ranks * e)
         + unit * ((x.up + x.down + x.h) * h
                   + (2 * x.up + x.down + x.f) * f)
end

local whole <const> = {
  experts(1, 1, 3, 2, 0, 0),        -- FC2's sum
  experts(2, 0, 0, 1, 1, 0),        -- FC1's adapter
  experts(3, 0, 0, 1, 0, 0),        -- FC1's sum
  experts(1, 1, 2, 2, 0, 1),        -- FC2's adapter
  experts(1, 1, 3, 2, 0, 0),        -- FC2 returns
}

local function experts_at(at, peak)
  local x, rank, padded = {}, at.f.lora_rank, 0
  for key, n in pairs(whole[peak]) do x[key] = n end
  x.rows = x.rows + (at.f.parallel.ep > 1 and 1 or 2)
  if rank > 0 and rank < 8 and peak > 1 then padded = 1 end
  x.up = x.up + padded
  if peak > 3 then x.down = x.down + padded end
  return x
end

-- ---- instants -------------------------------------------------------------

-- The MoE of the recompute (pricing.md 3).
local function recompute(at)
  local t, m = instant(), at.f.model
  local most, dispatch, peak = 0, 0, 1
  for i = 1, math.min(#at.moe.peaks, #whole) do
    local p = at.moe.peaks[i]
    local bytes = at.pairs * ((p.per_row - p.shared) // m.top_k) + p.fixed
    if bytes > most then
      most, dispatch, peak = bytes, at.pairs * (p.dispatch // m.top_k), i
    end
  end
  put_mixer(at, t)
  put_routing(at, true, t)
  put(t, "residual_norm", 2, at.rows, m.hidden * ELEMENT)
  put(t, "residual_norm", 1, at.rows, F32)
  add(t.terms, "moe_dispatch", dispatch)
  add(t.terms, "moe_experts", most - dispatch)
  list_experts(at, t, experts_at(at, peak))
  return t
end

-- The experts' backward, through FC2 or FC1: as each gradient is made apart,
-- as the adapter's share of dx appears, and as the base's does beside it.
local backward <const> = {
  fc2 = {experts(1, 1, 2, 3, 1, 1, 1, 0), experts(1, 1, 2, 2, 1, 1, 0, 1),
         experts(1, 2, 2, 2, 1, 1), experts(1, 3, 2, 1, 1, 0)},
  fc1 = {experts(1, 0, 1, 2, 1, 0, 0, 2), experts(1, 0, 1, 1, 1, 0, 1, 0),
         experts(1, 0, 2, 1, 1, 0), experts(1, 0, 3, 0, 0, 0)},
}

local function experts_backward(at, through)
  local t, m, rank = instant(), at.f.model, at.f.lora_rank
  local padded = rank > 0 and rank < 8
  local apart, most, dearest = not at.fresh or padded, -1, nil
  for _, peak in ipairs(backward[through]) do
    local x = {}
    for key, n in pairs(peak) do x[key] = n end
    if not padded then x.up, x.down = 0, 0 end
    if not apart then x.h, x.f = 0, 0 end
    local bytes = experts_bytes(at, x)
    if bytes > most then most, dearest = bytes, x end
  end
  put_mixer(at, t)
  put_routing(at, false, t)
  put(t, "residual_norm", 2, at.rows, m.hidden * ELEMENT)
  put(t, "residual_norm", 1, at.rows, F32)
  put(t, "input_gradient", at.leaves and 1 or 0, at.rows, m.hidden * ELEMENT)
  add(t.terms, "moe_experts", most)
  list_experts(at, t, dearest)
  return t
end

local function put_residual(at, t)
  local row = at.f.model.hidden * ELEMENT
  put(t, at.kind, at.converted and 2 or 1, at.rows, row)
  put(t, at.kind, 1, at.rows, F32)
  put(t, "input_gradient", 1, at.rows, row)
end

local function gdn_backward(at)
  local t, m, w = instant(), at.f.model, pricing.widths(at.f.model)
  put_act(t, "gdn", 1, at.rows, w.conv)
  put_act(t, "gdn", 6, at.rows, w.wide)
  put_act(t, "gdn", 7, at.rows, w.value)
  put_act(t, "gdn", 1, at.rows, 64 * m.v_heads)
  put_gdn_marks(at, t)
  put(t, "gdn", 7, at.rows, m.v_heads * F32)
  put_act(t, "gdn", 2, at.rows, m.v_heads)
  put_ranks(at, "gdn", 2, t)
  put_whole(t, "gdn", 2, at.chunks, w.state * ELEMENT)
  put_whole(t, "gdn", 2, at.states, w.state * F32)
  put_whole(t, "gdn", 1, at.sent, w.state * F32)
  put(t, "gdn", 1, at.states, halo(m))
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
  put(t, c, 2, at.rows, m.q_heads * F32)
  put(t, c, 1, at.rows, m.kv_heads * F32)
  put_ranks(at, c, 3, t)
  put_whole(t, c, 2, at.back.q, w.q * ELEMENT)
  put(t, c, 1, at.back.q, m.q_heads * F32)
  put_whole(t, c, 2, at.back.k, w.kv * F32)
  put(t, c, 1, at.back.sent, 2 * w.kv * F32)
  put_records(at, at.back.stages, at.back.records, t)
  put_residual(at, t)
  return t
end

-- The first projections' backward.
local function projections_backward(at)
  local t, m, w = instant(), at.f.model, pricing.widths(at.f.model)
  local gdn, c = at.kind == "gdn", at.kind
  local joined = gdn and w.conv + w.value + 2 * m.v_heads
                 or (m.attn_gate and 2 or 1) * w.q + 2 * w.kv
  put_act(t, c, 1, at.rows, joined)
  put_act(t, c, 1, at.rows, m.hidden)
  put_act(t, c, 1, at.rows, math.max(m.hidden, gdn and w.value or w.kv))
  put_ranks(at, c, 2, t)
  put_residual(at, t)
  return t
end

-- Of own bytes of a layer's adapter gradients those of FC2, of the experts,
-- and all but the first projections'.
local function gradients_at(at, own)
  local m, w, unit = at.f.model, pricing.widths(at.f.model),
                     at.f.lora_rank * ELEMENT
  local h, ffn, el = m.hidden, m.expert_ffn, m.experts // at.f.parallel.ep
  local fc2 = el * (h + ffn)
  local experts_all = fc2 + el * (h + 2 * ffn)
  local shared = m.shared_ffn > 0 and 3 * (h + m.shared_ffn) or 0
  local out = h + (at.kind == "gdn" and w.value or w.q)
  local first = at.kind == "gdn" and 2 * h + w.conv + w.value
                or 3 * h + (m.attn_gate and 2 or 1) * w.q + 2 * w.kv
  local most = own
  if own == unit * (experts_all + shared + out + first) then
    most = own - unit * first
  end
  return math.min(own, unit * fc2), math.min(own, unit * experts_all), most
end

-- In the order in which the layer runs, with its own gradients at each; the
-- last is of the first layer alone, where none in front has them all.
local function instants(at, own, first)
  local fc2, fc1, most = gradients_at(at, own)
  local mixer = at.kind == "gdn" and gdn_backward or attention_backward
  local all = {{recompute(at), 0}, {experts_backward(at, "fc2"), fc2},
               {experts_backward(at, "fc1"), fc1}, {mixer(at), most}}
  if first then all[#all + 1] = {projections_backward(at), own} end
  return all
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

-- Rows that peers fetched: as the facts say, else at most so many.
local function sent_rows(group, rank, i)
  if group.sent_rows then return group.sent_rows[rank][i] or 0 end
  local sum = 0
  for r, stages in ipairs(group.stages) do
    local s = stages[i]
    if r ~= rank and s and not s["local"] then
      sum = sum + math.min(s.k, group.attention_rows[rank])
    end
  end
  return sum
end

-- The executor's backward at its dearest: a stage's own beside its records
-- and those of the stages before it; then, these gone, the gradients that its
-- keys' owners are sent.
local function dearest_back(f, group, rank, own)
  local m, w = f.model, pricing.widths(f.model)
  local stages, best, most, all = group.stages[rank], nil, 0, 0
  local function take(x)
    local bytes = x.records + x.q * (2 * w.q * ELEMENT + m.q_heads * F32)
                  + (x.k + x.sent) * 2 * w.kv * F32
    if bytes > most then best, most = x, bytes end
  end
  for _, of in ipairs(group.stages) do all = math.max(all, #of) end
  local kept, records = {}, 0
  for i = 1, all do
    local s = stages[i]
    local works = s and s.q > 0 and s.k > 0
    local k = works and pricing.padded(s.k_len, f.block[2]) or 0
    if not (s and s["local"]) then
      take{stages = kept, records = records, q = 0, k = k,
           sent = sent_rows(group, rank, i)}
    end
    kept = table.move(stages, 1, math.min(i, #stages), 1, {})
    records = pricing.records(f, kept, own)
    take{stages = kept, records = records, k = k, sent = 0,
         q = works and pricing.padded(s.q_len, f.block[1]) or 0}
  end
  return best or {stages = {}, records = 0, q = 0, k = 0, sent = 0}
end

local function attention_layers(f, group, rank, at)
  at.records = 0
  at.back = {records = 0, q = at.rows, k = at.rows, sent = 0}
  if f.parallel.cp == 1 then return at end
  if group.attention_retained then
    at.records = group.attention_retained[rank]
    at.back.records = at.records
    return at
  end
  at.stages, at.own = group.stages[rank], group.attention_rows[rank]
  at.records = pricing.records(f, at.stages, at.own)
  at.back = dearest_back(f, group, rank, at.own)
  return at
end

local function layers_of(f, moe, group, rank, kind)
  local at = {f = f, moe = moe, kind = kind,
              rows = pricing.rows(group, rank, kind)}
  if kind == "attention" then return attention_layers(f, group, rank, at) end
  at.states = group.gdn_states and group.gdn_states[rank]
              or (at.rows > 0 and 1 or 0)
  at.sent = group.gdn_sent and group.gdn_sent[rank] or 0
  at.chunks = group.gdn_chunks and group.gdn_chunks[rank]
              or pricing.ceil_div(at.rows, 64)
  return at
end

-- ---- what is beside it ----------------------------------------------------

local function boundary_blocks(bytes)
  local b = slack.blocks()
  slack.alike(b, 1, bytes)
  slack.repeats(b)
  return b
end

-- What a layer's grouped adapters are wide, and how many are.
local function adapter_widths(m)
  return {{2, m.hidden}, {1, 2 * m.expert_ffn}, {1, m.expert_ffn}}
end

-- All groups' boundaries but those of one.
local function beside_but(f, rank, but)
  local bytes, blocks = 0, slack.blocks()
  for i, group in ipairs(f.groups) do
    for layer = 1, i ~= but and f.layers or 0 do
      local saved = pricing.boundary(f, group, rank, layer)
      bytes, blocks = bytes + saved,
                      slack.join(blocks, boundary_blocks(saved))
    end
  end
  local unit = f.model.experts // f.parallel.ep * ELEMENT
  for _, w in ipairs(f.lora_rank > 0 and adapter_widths(f.model) or {}) do
    slack.grain(blocks, unit * f.lora_rank * w[2])
    slack.grain(blocks, unit * math.max(8, f.lora_rank) * w[2])
  end
  return {boundaries = bytes, blocks = blocks}
end

-- SITES: the adapters that a layer may have, two tensors each.
local SITES <const>, LARGE_GRADIENTS <const> = 15, 4

-- All widths of adapters at ranks of whole blocks: nothing is rounded up.
local function gradients_round(f)
  local m, w, all = f.model, pricing.widths(f.model), 0
  for _, n in ipairs{m.hidden, m.expert_ffn, m.shared_ffn, w.q, w.kv, w.value,
                     w.conv} do
    while n ~= 0 do all, n = n, all % n end
  end
  return all * f.lora_rank * ELEMENT % 512 ~= 0
end

local function logits_of(f, rows)
  return math.min(512, f.head_rows, rows) * f.model.vocab * ELEMENT
end

-- What gradients keep of new segments, which those have that are more than
-- boundaries and logits that are gone.
local function packed_gradients(f, group, rank, n, bytes)
  local most, all = slack.packed(n, bytes), 0
  if most == 0 then return 0 end
  local freed = 3 * logits_of(f, group.attention_rows[rank])
  for layer = 1, f.layers do
    for i = 1, 3 do all = all + n[i] * bytes[i] end
    freed = freed + pricing.boundary(f, group, rank, layer)
  end
  return freed >= all and 0 or (all - freed) // (all // 1024) * most // 1024
end

local function gradient_blocks(f, group, rank)
  local unit = f.model.experts // f.parallel.ep * f.lora_rank * ELEMENT
  local row, b = f.model.hidden * ELEMENT, slack.blocks()
  local n, bytes = {}, {}
  for i, w in ipairs(adapter_widths(f.model)) do
    n[i], bytes[i] = w[1], unit * w[2]
    slack.alike(b, n[i], bytes[i])
    slack.in_hole(b, n[i], bytes[i], group.attention_rows[rank] * row,
                  group.gdn_rows[rank] * row)
  end
  b.packed = slack.packed(n, bytes)
  b.mean = math.max(b.mean, packed_gradients(f, group, rank, n, bytes))
  b.tensors = gradients_round(f) and 2 * SITES or 0
  slack.repeats(b)
  return b
end

-- An instant's blocks and what is beside it. Gradients have segments of their
-- own where base divides all that is large and rows make none of it, loose, in
-- no layer before. Else of a layer's no more lie in a hole without the grain
-- than there are tensors without it.
local function blocks_at(t, base, blocks, gradients, incoming, loose, hole)
  local own = blocks_of(t, base)
  local regular = base > 0 and not loose and incoming <= MiB and own.odd == 0
  if regular and base <= MiB then own = blocks_of(t, base, hole) end
  local all = slack.join(own, blocks)
  slack.add(all, 1, incoming)
  if regular then
    gradients = slack.pack(gradients)
  elseif base > MiB then
    gradients = slack.part(gradients, all.odd, LARGE_GRADIENTS)
  end
  return slack.join(all, gradients)
end

-- ---- a rank ---------------------------------------------------------------

local function walk_layers(f, moe, group, rank, pending, above, beside, take)
  local at, row = {}, f.model.hidden * ELEMENT
  local boundaries, blocks = beside.boundaries, slack.join(beside.blocks)
  local own_blocks = gradient_blocks(f, group, rank)
  local gradients, loose = slack.blocks(), f.lora_rank < 8
  local hole = f.model.experts // f.parallel.ep * f.lora_rank * ELEMENT
               * f.model.expert_ffn
  for layer = f.layers, 1, -1 do
    local kind = f.model.kinds[layer]
    at[kind] = at[kind] or layers_of(f, moe, group, rank, kind)
    local a, own = at[kind], pending and pending[layer] or 0
    a.pairs, a.fresh = pairs_of(f, group, rank, layer), own > 0
    a.converted = f.parallel.cp > 1
                  and pricing.input_layout(f.model, layer) ~= kind
    a.leaves = f.parallel.cp > 1
               and pricing.output_layout(f.model, layer) ~= kind
    a.out_rows = pricing.rows(group, rank,
                              pricing.output_layout(f.model, layer))
    local incoming, base = a.out_rows * row, slack.base(blocks)
    local all_instants = instants(a, own, layer == 1)
    for _, x in ipairs(all_instants) do loose = loose or x[1].loose end
    for i, x in ipairs(all_instants) do
      local terms = x[1].terms
      if i == 2 and own > 0 then
        gradients = slack.join(gradients, own_blocks)
      end
      local all = blocks_at(x[1], base, blocks, gradients, incoming, loose,
                            hole)
      terms.boundaries = boundaries
      add(terms, "input_gradient", incoming)
      add(terms, "adapter_gradients", above + x[2])
      terms.rounding = slack.bytes(all, pricing.sum(terms))
      take(kind, terms)
    end
    above = above + own
    local saved = pricing.boundary(f, group, rank, layer)
    boundaries = boundaries - saved
    slack.drop(blocks, boundary_blocks(saved))
  end
end

local function total(numbers)
  local sum = 0
  for _, n in ipairs(numbers) do sum = sum + n end
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
        local after = beside_but(f, rank, o)
        walk_layers(f, moe, group, rank, nil, others + total(pending), after,
                    take)
      end
    end
  end
  return best
end

local function rank_head(f, rank, beside)
  local m, rows, all = f.model, 0, 0
  for _, group in ipairs(f.groups) do
    rows = math.max(rows, group.attention_rows[rank])
    all = all + total(group.attention_rows)
  end
  local chunk, row = math.min(512, f.head_rows, rows), m.hidden * ELEMENT
  local logits = logits_of(f, rows)
  local _, at_head = pricing.walks(f, rank)
  local terms = {boundaries = beside.boundaries}
  local gathered, alike = f.head_rows < all and 2 or 1, slack.blocks()
  add(terms, "adapter_gradients", at_head)
  add(terms, "head", rows * (3 * row + F32) + 3 * logits
                     + chunk * gathered * row)
  slack.alike(alike, 3, rows * row)
  slack.alike(alike, gathered, chunk * row)
  slack.repeats(alike)
  local blocks = slack.join(beside.blocks, alike)
  slack.fresh(blocks, 3, logits)
  add(terms, "rounding", slack.bytes(blocks, pricing.sum(terms)))
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
    elseif why == nil and f.parallel.cp % f.parallel.ep ~= 0 then
      why = ("EP%d CP%d: ranks that share experts are others than the wave's")
            :format(f.parallel.ep, f.parallel.cp)
    elseif why == nil and f.compiled == false then
      why = "not compiled: operators are priced as fused"
    end
    if why == nil and f.load_cv then why = "no quantiles of routing here" end
    if why then return nil, why end
    local moe, raw, best = pricing.moe(f, true, false), 0, nil
    local function take(terms)
      local bytes = pricing.sum(terms)
      if bytes > raw then raw, best = bytes, terms end
    end
    for rank = 1, f.parallel.cp do
      local beside, shared = beside_but(f, rank), common(f, rank)
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
