-- "After": each context-parallel rank priced on its own rows in each layer's
-- layout, the largest rank taken (src/price/pricing.md 5, 8). The same bytes
-- as the estimator per-rank.
local pricing = require "pricing"

local function rank_boundaries(f, rank)
  local sum = 0
  for _, group in ipairs(f.groups) do
    for layer = 1, f.layers do
      sum = sum + pricing.boundary(f, group, rank, layer)
    end
  end
  return sum
end

-- The largest stage of a kind over the groups.
local function rank_stage(f, moe, rank, kind)
  local width = pricing.mixer_width(f.model, kind, f.parallel.cp, false)
  local most, largest = -1, nil
  for _, group in ipairs(f.groups) do
    local rows = math.max(1, pricing.rows(group, rank, kind))
    local records = kind == "gdn" and 0
                    or pricing.group_records(f, group, rank)
    local terms = pricing.stage(f, moe, kind, width, rows,
                                pricing.routed_rows(f, group, rows), records)
    if pricing.sum(terms) > most then
      most, largest = pricing.sum(terms), terms
    end
  end
  return most, largest
end

-- Boundaries and the larger stage of every rank; the rank with most of both.
local function price_ranks(f, moe)
  local ranks, binding = {}, nil
  for r = 1, f.parallel.cp do
    local rank = {boundaries = rank_boundaries(f, r), stage = 0}
    for _, kind in ipairs{"attention", "gdn"} do
      if pricing.has(f.model, kind) then
        local bytes, terms = rank_stage(f, moe, r, kind)
        if bytes > rank.stage or rank.terms == nil then
          rank.stage, rank.terms = bytes, terms
        end
      end
    end
    rank.extra, rank.at_head = pricing.walks(f, r)
    rank.total = rank.boundaries + rank.stage
    ranks[r] = rank
    if binding == nil or rank.total > binding.total then binding = rank end
  end
  return ranks, binding
end

-- A rank with few rows has much extra but a low floor, so its extra counts
-- from its own floor.
local function paired_extra(ranks, boundaries, workspace)
  local most, any = 0, 0
  for _, rank in ipairs(ranks) do
    local work = math.max(rank.total - rank.boundaries, workspace)
    most = math.max(most, rank.boundaries + work + rank.extra)
    any = math.max(any, rank.extra)
  end
  return any == 0 and 0 or math.max(0, most - boundaries - workspace)
end

return estimator{
  name = "per-rank.lua",
  price = function(f)
    local why = pricing.refuses(f) or pricing.refuses_layouts(f)
    if why == nil and f.parallel.cp ~= 2 then
      why = ("CP%d: layouts are priced at CP2 only"):format(f.parallel.cp)
    end
    if why then return nil, why end
    local moe, te = pricing.moe(f, true, true), pricing.cold(f)
    local ranks, binding = price_ranks(f, moe)
    local boundaries, at_head = 0, 0
    for _, rank in ipairs(ranks) do
      boundaries = math.max(boundaries, rank.boundaries)
      at_head = math.max(at_head, rank.at_head)
    end
    local workspace = binding.total - boundaries + te
    local largest = binding.terms
    pricing.add(largest, "boundaries", binding.boundaries)
    local terms = pricing.total(f, moe, {
      boundaries = boundaries, workspace = workspace,
      extra = paired_extra(ranks, boundaries, workspace), at_head = at_head,
      terms = largest,
    })
    return {raw = pricing.sum(terms), terms = terms}
  end,
}
