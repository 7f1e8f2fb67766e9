-- "Before": every rank priced on the busiest rank's rows, with the wider mixer
-- (src/price/pricing.md 4). The same bytes as the estimator busiest-rank.
local pricing = require "pricing"

local function wider_mixer(f)
  local m, cp = f.model, f.parallel.cp
  if not pricing.has(m, "gdn") then return "attention" end
  if not pricing.has(m, "attention") then return "gdn" end
  local gdn = pricing.mixer_width(m, "gdn", cp, true)
  return gdn > pricing.mixer_width(m, "attention", cp, true) and "gdn"
         or "attention"
end

-- A group's layer at its peak. Without gradients: the decoder's and the
-- layer's input, the MLP's residual and the norm's output, beside the MoE.
local function group_stage(f, group, kind)
  local m, cp = f.model, f.parallel.cp
  local rows = pricing.busiest_rows(group)
  local routed = pricing.routed_rows(f, group, rows)
  if not group.grad then
    local terms = pricing.moe_terms(pricing.moe(f, false, true), rows, routed)
    if m.experts > 0 then
      pricing.add(terms, "residual_norm", rows * 4 * m.hidden * 2)
    end
    return terms
  end
  local width = pricing.mixer_width(m, kind, cp, false)
  local buffers = pricing.mixer_width(m, kind, cp, true) - width
  return pricing.stage(f, pricing.moe(f, true, true), kind, width, rows,
                       routed, rows * buffers)
end

return estimator{
  name = "busiest-rank.lua",
  price = function(f)
    local why = pricing.refuses(f)
    if why then return nil, why end
    local kind, te = wider_mixer(f), pricing.cold(f)
    local workspace, boundaries, largest = -1, 0, nil
    for _, group in ipairs(f.groups) do
      local terms = group_stage(f, group, kind)
      if pricing.sum(terms) > workspace then
        workspace, largest = pricing.sum(terms), terms
      end
      if group.grad then
        boundaries = boundaries
                     + pricing.boundary(f, group, nil, 1) * f.layers
      end
    end
    pricing.add(largest, "boundaries", boundaries)
    local extra, at_head = pricing.walks(f, nil)
    local terms = pricing.total(f, pricing.moe(f, true, true), {
      boundaries = boundaries, workspace = workspace + te, extra = extra,
      at_head = at_head, terms = largest,
    })
    return {raw = pricing.sum(terms), terms = terms}
  end,
}
