-- The parts of which the estimators in lua/estimators are made: what a wave
-- holds, from its facts, in whole bytes. Each has its section in
-- src/price/pricing.md, which the C estimators follow too; a test holds the
-- two to each other, byte by byte.
local pricing = {}

local MiB <const> = 1 << 20
local ELEMENT <const>, F32 <const> = 2, 4

local function ceil_div(a, b) return (a + b - 1) // b end
local function round_up(n, to) return ceil_div(n, to) * to end
pricing.ceil_div, pricing.round_up = ceil_div, round_up

-- Terms by category; what is not there is 0.
local function add(terms, category, bytes)
  if bytes ~= 0 then terms[category] = (terms[category] or 0) + bytes end
end
function pricing.sum(terms)
  local sum = 0
  for _, bytes in pairs(terms) do sum = sum + bytes end
  return sum
end
function pricing.join(...)
  local all = {}
  for _, terms in ipairs{...} do
    for category, bytes in pairs(terms) do add(all, category, bytes) end
  end
  return all
end
pricing.add = add

-- ---- the model's widths, in elements a row --------------------------------

function pricing.widths(m)
  return {
    q = m.q_heads * m.head_dim, kv = m.kv_heads * m.head_dim,
    key = m.k_heads * m.k_dim, value = m.v_heads * m.v_dim,
    wide = m.v_heads * m.k_dim,     -- q or k spread over the value heads
    conv = 2 * m.k_heads * m.k_dim + m.v_heads * m.v_dim,
    state = m.v_heads * m.k_dim * m.v_dim,
  }
end

function pricing.has(m, kind)
  for _, k in ipairs(m.kinds) do
    if k == kind then return true end
  end
  return false
end

-- In which layout a layer's input arrives, and its output leaves.
function pricing.input_layout(m, layer)
  local inside = layer > 1 and m.kinds[layer] == "gdn"
                 and m.kinds[layer - 1] == "gdn"
  return inside and "gdn" or "attention"
end
function pricing.output_layout(m, layer)
  local inside = layer < #m.kinds and m.kinds[layer] == "gdn"
                 and m.kinds[layer + 1] == "gdn"
  return inside and "gdn" or "attention"
end

-- Bytes a row of a recomputed mixer (pricing.md 2).
function pricing.mixer_width(m, kind, cp, stage_buffers)
  local w = pricing.widths(m)
  local n = 2 * m.hidden + (m.attn_gate and 7 or 5) * w.q + 3 * w.kv
  if kind == "gdn" then
    n = m.hidden + 2 * w.key + 2 * w.wide + 6 * w.value + 64 * m.v_heads
    if cp > 1 then n = n + m.hidden + w.value end
  elseif stage_buffers and cp > 1 then
    n = n + 3 * w.q + 2 * w.kv
  end
  return n * ELEMENT
end

-- ---- rows -----------------------------------------------------------------

function pricing.rows(group, rank, kind)
  return kind == "gdn" and group.gdn_rows[rank] or group.attention_rows[rank]
end

function pricing.busiest_rows(group)
  return math.max(1, math.max(table.unpack(group.attention_rows)),
                  math.max(table.unpack(group.gdn_rows)))
end

local function total(rows)
  local sum = 0
  for _, n in ipairs(rows) do sum = sum + n end
  return sum
end

-- As given, or the even share where the EP group is the CP group; of a dense
-- model the layer's own rows.
function pricing.routed_rows(f, group, rows)
  if f.model.experts == 0 then return rows end
  if group.routed_rows then return group.routed_rows end
  local busiest, cp, ep = pricing.busiest_rows(group), f.parallel.cp,
                          f.parallel.ep
  if ep == 1 or ep ~= cp then return busiest end
  local most = math.max(total(group.attention_rows), total(group.gdn_rows))
  return math.min(busiest, ceil_div(most, cp))
end

-- A layer's saved input on a rank; rank nil: the busiest rows in every layer.
function pricing.boundary(f, group, rank, layer)
  local rows = rank == nil and pricing.busiest_rows(group)
               or pricing.rows(group, rank,
                               pricing.input_layout(f.model, layer))
  return math.max(1, rows) * f.model.hidden * ELEMENT
end

-- ---- the MoE of a layer (pricing.md 3) ------------------------------------

local LOG_BITS <const> = 24

local function log2_up(x)
  local one, whole, digits = 1 << 31, 0, 0
  while x >> (whole + 1) > 0 do whole = whole + 1 end
  if x & (x - 1) == 0 then return whole << LOG_BITS end
  local m = ((x << 31) + (1 << whole) - 1) >> whole
  for _ = 1, LOG_BITS do
    m = (m * m + one - 1) >> 31
    digits = 2 * digits
    if m >= 2 * one then
      m, digits = (m + 1) // 2, digits + 1
    end
  end
  return (whole << LOG_BITS) + digits + 1
end

-- What ranks may receive beyond their share, as published: a ratio.
local function allowance(ep)
  if ep <= 1 then return 1, 1 end
  if ep <= 2 then return 14, 10 end
  if ep <= 4 then return 16, 10 end
  if ep <= 8 then return 20, 10 end
  local unit = 1 << LOG_BITS
  return 20 * unit + 4 * (log2_up(ep) - 3 * unit), 10 * unit
end

-- A dense MLP, one stage (pricing.md 3.5).
local function dense(m, rank, grad)
  local n = grad and 28 * m.ffn + m.hidden or 24 * m.ffn + 17 * m.hidden
  local row = (n + 24 * rank) * ELEMENT // 4
  return {peaks = {{per_row = row, shared = row, fixed = 0, dispatch = 0}},
          shared = 0, covered = true}
end

-- The ways in which the stage may reach its peak: bytes a routed row, and
-- fixed; of per_row, dispatch are the dispatched inputs, shared the shared
-- expert's.
function pricing.moe(f, grad, with_allowance)
  local m, ep, rank = f.model, f.parallel.ep, f.lora_rank
  if m.experts == 0 then return dense(m, rank, grad) end
  local num, den = 1, 1
  if with_allowance then num, den = allowance(ep) end
  num = num * m.top_k * ELEMENT
  local function up(width) return ceil_div(num * width, den) end
  local function down(width) return num * width // den end
  local function from(base, width)
    if width >= 0 then return base + up(width) end
    return math.max(0, base - down(-width))
  end
  local h, ff, local_experts = m.hidden, m.expert_ffn, m.experts // ep
  local inputs, covered = (ep > 1 and 1 or 2) * h, local_experts > 1
  local shared = m.shared_ffn == 0 and 0
                 or (grad and m.shared_gate and 2 or 1) * h * ELEMENT
  local width = ff + 3 * h + (covered and inputs + 2 * ff or 0)
  local peaks = {{per_row = up(width) + shared, shared = shared, fixed = 0,
                  dispatch = covered and down(inputs) or 0}}
  local moe = {peaks = peaks, shared = shared, covered = covered}
  local converts = f.moe_stages and rank > 0 and (rank < 8 or rank % 8 == 0)
                   and h > 1 and ff > 1
  if m.top_k == 0 then
    moe.peaks = {}
    return moe
  elseif not converts then
    return moe
  end
  local e = math.max(8, rank)
  local function converted(inner, outer)
    local bytes = local_experts * e * (inner + outer) * ELEMENT
    return bytes, rank < 8 and bytes or 0
  end
  local t1, p1 = converted(h, 2 * ff)
  local t2, p2 = converted(ff, h)
  local kept = grad and covered
  local e1, kept1 = kept and e or 0, kept and p1 or 0
  local row, d = peaks[1].per_row, down(inputs)
  local function peak(per_row, dispatch, s, fixed)
    peaks[#peaks + 1] = {per_row = per_row, dispatch = dispatch, shared = s,
                         fixed = fixed}
  end
  peak(up(inputs + 4 * ff + e) + shared, d, shared, p1 + t1)
  peak(up(inputs + 6 * ff + e1) + shared, d, shared, kept1)
  peak(from(row, e + e1 - h), peaks[1].dispatch, shared, p2 + t2 + kept1)
  if not grad then return moe end
  peak(from(row, e + e1), peaks[1].dispatch, shared, p2 + kept1)
  if rank >= 8 then return moe end
  local copies = local_experts * rank * ELEMENT
                 * (ff + (local_experts > 1 and h or 0))
                 + 2 * (local_experts + 1) * 4
  peak(up(2 * ff + 2 * h + 2 * e + e1), 0, 0, p2 + t2 + kept1 + copies)
  return moe
end

-- Terms of one layer's MoE on rows of its own and rows routed to it.
function pricing.moe_terms(moe, rows, routed)
  local most, at = -1, nil
  for i, p in ipairs(moe.peaks) do
    local bytes = routed * p.per_row + p.fixed
    if bytes > most and (i == 1 or rows > 0) then most, at = bytes, p end
  end
  local terms = {}
  if at == nil then return terms end
  local dispatch, shared = routed * at.dispatch, routed * at.shared
  add(terms, "moe_dispatch", dispatch)
  add(terms, "shared_expert",
      shared + math.max(0, rows - routed) * moe.shared)
  add(terms, "moe_experts", most - dispatch - shared)
  return terms
end

-- ---- a layer at its peak (pricing.md 4, 5) --------------------------------

function pricing.routing_state(f)
  local m = f.model
  if not f.routing_state or m.experts == 0 then return 0, 0 end
  local map = f.parallel.ep == 1 and 4 * (2 * m.experts + 1)
              or 9 * m.experts + 16
  return 5 * m.experts + map, 3 * m.shared_ffn * ELEMENT
end

function pricing.stage(f, moe, kind, width, rows, routed, records)
  local routing, shared = pricing.routing_state(f)
  local terms = pricing.moe_terms(moe, rows, routed)
  add(terms, kind == "gdn" and "gdn" or "attention", rows * width)
  add(terms, "attention_records", records)
  if f.model.experts > 0 then
    add(terms, "residual_norm", rows * 2 * f.model.hidden * ELEMENT)
  end
  add(terms, "moe_routing", rows * routing)
  add(terms, "shared_expert", rows * shared)
  return terms
end

-- ---- the attention executor's records (pricing.md 5) ----------------------

local function padded(len, block)
  if len == 0 then return 0 end
  return math.max(round_up(len, block), 2 * block)
end
pricing.padded = padded

local function full(s, own)
  if s.q_full ~= nil then return s.q_full end
  return s.q == own
end

-- each, where it is given, is called with every tensor: how many, bytes.
function pricing.records(f, stages, own, each)
  local m, w = f.model, pricing.widths(f.model)
  local q, kv, lse = w.q * ELEMENT, w.kv * ELEMENT, m.q_heads * F32
  local tape = m.q_heads * (m.head_dim + 1) * F32
  local sum, tapes, least, has_local = 0, 0, math.maxinteger, false
  local function keep(n, rows, width)
    sum = sum + n * rows * width
    if each then each(n, rows * width) end
  end
  for _, s in ipairs(stages) do
    if s.q > 0 and s.k > 0 then
      local q_pad, k_pad = padded(s.q_len, f.block[1]),
                           padded(s.k_len, f.block[2])
      local q_full = full(s, own)
      local k_full = s["local"] and s.k == own
      if not q_full then keep(1, s.q, q) end
      if q_pad ~= s.q then keep(1, q_pad, q)
      elseif q_full then keep(1, s.q, q) end
      if not k_full then keep(1, s.k, 2 * kv) end
      if k_pad ~= s.k then keep(2, k_pad, kv)
      elseif k_full then keep(2, s.k, kv) end
      keep(1, q_pad, q)
      keep(2, q_pad, lse)
      if q_pad ~= s.q then
        keep(1, s.q, q)
        keep(1, s.q, lse)
      end
      if s["local"] then
        has_local = true
      else
        local t = q_full and own * tape or s.q * (tape + 8)
        if each then each(1, t) end
        tapes, least = tapes + t, math.min(least, t)
      end
    end
  end
  if not has_local and least ~= math.maxinteger then tapes = tapes - least end
  return sum + tapes
end

function pricing.group_records(f, group, rank)
  if group.attention_retained then return group.attention_retained[rank] end
  return pricing.records(f, group.stages[rank], group.attention_rows[rank])
end

-- ---- adapter gradients (pricing.md 8) -------------------------------------

-- Pending gradients by layer, outside last; nil: none.
function pricing.pending(f, group)
  if group.slot == "base" then return nil end
  return f.adapter_pending or nil
end

local function walk(f, group, rank)
  local pending = pricing.pending(f, group)
  local layers = f.layers
  local outside = pending and pending[layers + 1] or 0
  local held, gone, extra = outside, 0, outside
  for layer = layers, 1, -1 do
    held = held + (pending and pending[layer] or 0)
    extra = math.max(extra, held - gone)
    gone = gone + pricing.boundary(f, group, rank, layer)
  end
  return {outside = outside, extra = extra, net = held - gone}
end

-- Of each slot the most that one of its groups leaves behind.
function pricing.left_behind(f, rank)
  local most = {}
  for _, group in ipairs(f.groups) do
    if group.grad then
      most[group.slot] = math.max(most[group.slot] or 0,
                                  walk(f, group, rank).net)
    end
  end
  return function(slot)       -- before a group of this slot runs
    local sum = 0
    for other, bytes in pairs(most) do
      if other ~= slot then sum = sum + bytes end
    end
    return sum
  end
end

-- Gradients beyond the peak of the boundaries, and those live at the head.
function pricing.walks(f, rank)
  local left = pricing.left_behind(f, rank)
  local extra, at_head = 0, 0
  for _, group in ipairs(f.groups) do
    if group.grad then
      local w, others = walk(f, group, rank), left(group.slot)
      extra = math.max(extra, w.extra + others)
      at_head = math.max(at_head, w.outside + others)
    end
  end
  return extra, at_head
end

-- ---- the wave (pricing.md 0.1, 7.4, 10) -----------------------------------

local function gcd(a, b)
  while b ~= 0 do a, b = b, a % b end
  return a
end

function pricing.hybridep_growth(f)
  local held, cp, ep, m = f.hybridep_held_rows, f.parallel.cp, f.parallel.ep,
                          f.model
  if held == nil or ep == 1 then return 0 end
  local packed = f.packed_length
  local capacity = math.min(packed, 2 * ceil_div(packed, 512 * cp) * 512)
  for _, group in ipairs(f.groups) do
    capacity = math.max(capacity, pricing.busiest_rows(group))
  end
  local rows = round_up(capacity, 4 // gcd(4, ep))
  rows = round_up(math.max(rows, 512), 64)
  if rows <= held then return 0 end
  return rows * ep * (ELEMENT * m.hidden + 5 * m.experts
                      + 4 * (m.hidden // 128))
end

-- Workspaces that GEMMs have yet to allocate, and transients of a cold wave.
function pricing.cold(f)
  local grad = false
  for _, group in ipairs(f.groups) do grad = grad or group.grad end
  if not (f.cold and grad) then return 0, 0, grad end
  return 5 * (32 * MiB + 1024), 64 * MiB, grad
end

-- The sum of a published estimate: the floor's terms, or the head's.
-- p: boundaries, workspace (te inside), extra, at_head, terms.
function pricing.total(f, moe, p)
  local m, te, cold, grad = f.model, pricing.cold(f)
  local input_rows = 0
  for _, group in ipairs(f.groups) do
    if group.grad then
      input_rows = input_rows + pricing.busiest_rows(group)
    end
  end
  local gradient = moe.covered and input_rows * m.hidden * ELEMENT
                   or p.boundaries
  local common, head = {}, {}
  add(common, "outputs", f.output_bytes)
  add(common, "input_gradient", gradient)
  add(common, "workspace", cold)
  add(common, "hybridep", pricing.hybridep_growth(f))
  if f.head_rows > 0 then
    local logits = math.min(512, f.head_rows) * m.vocab * ELEMENT
    add(head, "head", (grad and 3 or 1) * logits)
    if moe.covered then
      add(head, "head", input_rows * (256 + 4 * m.rotary_dim))
      add(head, "input_gradient", 2 * gradient)
      add(head, "adapter_gradients", p.at_head)
      add(head, "workspace", te)
    else
      add(head, "adapter_gradients", p.extra)
    end
  end
  if pricing.sum(head) > p.workspace + p.extra then
    add(head, "boundaries", p.boundaries)
    return pricing.join(head, common)
  end
  local terms = pricing.join(p.terms, common)
  add(terms, "adapter_gradients", p.extra)
  add(terms, "workspace", te)
  return terms
end

-- Why no published estimator prices these facts, or nil.
function pricing.refuses(f)
  local p = f.parallel
  if (f.dtype or "bf16") ~= "bf16" then
    return ("dtype %s: priced in bf16 only"):format(f.dtype)
  end
  if p.tp ~= 1 or p.pp ~= 1 then
    return ("TP%d PP%d: only TP1 and PP1 are priced"):format(p.tp, p.pp)
  end
  if f.recompute ~= "full" or f.wave ~= "train" then
    return "prices training waves with full recompute only"
  end
end

-- Why layouts are not priced, or nil.
function pricing.refuses_layouts(f)
  for i, group in ipairs(f.groups) do
    if not group.grad then
      return ("group %d has no gradients: layouts are priced for gradient "
              .. "groups only"):format(i - 1)
    end
  end
  if f.softmax_offset then return "attention has a softmax offset" end
  if not f.cp_attention then
    return "attention is not the project's context-parallel attention"
  end
end

return pricing
