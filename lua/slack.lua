-- What the caching allocator adds to tensors that are alive together, as
-- src/price/slack.c has it (src/price/pricing.md 13).
local slack = {}

local MiB <const> = 1 << 20
local SMALLEST <const>, SEGMENT <const> = 512, 20 * MiB
local OWN_SEGMENT <const>, OWN_STEP <const> = 10 * MiB, 2 * MiB
local WORKSPACES <const>, WORKSPACE_REST <const> = 5, OWN_STEP - 1024
local DEVIATIONS <const>, CHEAP <const> = 3, 50

local function round_up(n, to) return (n + to - 1) // to * to end

-- ---- one block: what it keeps on average, and the square of that ----------

local function expected(bytes)
  local b = math.min(bytes, OWN_SEGMENT)
  local mean = 3 * MiB * MiB // (6 * b + 8 * MiB)
  if bytes < OWN_SEGMENT then return mean end
  local rest = round_up(bytes, OWN_STEP) - bytes
  return math.max(mean, rest <= MiB and rest or 0)
end

local function square(bytes)
  return (1 << 60) // (3 * math.min(bytes, OWN_SEGMENT) + 5 * MiB)
end

local function root(x)
  local r = math.floor(math.sqrt(x))
  while r > 0 and r > x // r do r = r - 1 end
  while r + 1 <= x // (r + 1) do r = r + 1 end
  return r
end

-- ---- sums -----------------------------------------------------------------

local function join_grain(a, b)
  if a == 0 or b == 0 then return a + b end
  if a <= MiB or b <= MiB then return 1 end
  while b ~= 0 do a, b = b, a % b end
  return a
end

local function grain_of(bytes)
  local block = round_up(bytes, SMALLEST)
  if bytes < OWN_SEGMENT then return block end
  return join_grain(block, round_up(bytes, OWN_STEP))
end

function slack.blocks()
  return {tensors = 0, large = 0, mean = 0, alike = 0, square = 0, grain = 0,
          rest = {}}
end

local function add_rest(b, rest)
  local i = #b.rest + 1
  while i > 1 and b.rest[i - 1] < rest do i = i - 1 end
  table.insert(b.rest, i, rest)
  b.rest[WORKSPACES + 1] = nil
end

-- The mean of a large one; nil: there are none.
local function count(b, n, bytes)
  if n == 0 or bytes == 0 then return nil end
  b.tensors = b.tensors + n
  if bytes <= MiB then return nil end
  local mean = expected(bytes)
  b.large = b.large + n
  b.grain = join_grain(b.grain, grain_of(bytes))
  local rest = WORKSPACE_REST - bytes - mean
  for _ = 1, rest > 0 and math.min(n, WORKSPACES) or 0 do add_rest(b, rest) end
  return mean
end

-- n tensors of so many bytes, each in a hole of its own kind.
function slack.add(b, n, bytes)
  local mean = count(b, n, bytes)
  if mean == nil then return end
  b.mean, b.square = b.mean + n * mean, b.square + n * square(bytes)
end

-- Made one after another when the layers' are gone.
function slack.fresh(b, n, bytes)
  local mean = count(b, n, bytes)
  if mean == nil then return end
  b.square = b.square + n * square(bytes)
  if bytes >= OWN_SEGMENT then
    b.mean = b.mean + n * mean
    return
  end
  local fit = SEGMENT // bytes
  local rest = SEGMENT - fit * round_up(bytes, SMALLEST)
  if rest <= MiB then b.mean = b.mean + n // fit * math.max(0, rest) end
end

-- Alike: what one keeps all may keep.
function slack.alike(b, n, bytes)
  local mean = count(b, n, bytes)
  if mean == nil then return end
  b.mean, b.square = b.mean + n * mean, b.square + n * n * square(bytes)
end

-- Where others of so many bytes, or so many, have been freed.
local function half_rest(bytes, hole)
  if hole <= MiB then return 0 end
  local rest = round_up(bytes, hole) - bytes
  return rest <= MiB and rest // 2 or 0
end
function slack.in_hole(b, n, bytes, hole, other)
  if bytes <= MiB then return end
  local half = math.max(half_rest(bytes, hole), half_rest(bytes, other))
  b.mean = b.mean + n * math.max(0, half - expected(bytes))
end

-- One that comes and goes beside them.
function slack.grain(b, bytes)
  if bytes > MiB then b.grain = join_grain(b.grain, grain_of(bytes)) end
end

-- Layer after layer alike.
function slack.repeats(b)
  b.alike, b.square = b.alike + root(b.square), 0
end

function slack.join(...)
  local all = slack.blocks()
  for _, b in ipairs{...} do
    for _, key in ipairs{"tensors", "large", "mean", "alike", "square"} do
      all[key] = all[key] + b[key]
    end
    all.grain = join_grain(all.grain, b.grain)
    for _, rest in ipairs(b.rest) do add_rest(all, rest) end
  end
  return all
end

-- Takes back what was joined, but for its grain and rests.
function slack.drop(b, other)
  for _, key in ipairs{"tensors", "large", "mean", "alike", "square"} do
    b[key] = b[key] - other[key]
  end
end

-- Of so many requested bytes in all.
function slack.bytes(b, bytes)
  local exact, kept = b.tensors * SMALLEST, b.mean
  if #b.rest == 0 and join_grain(b.grain, SEGMENT) > MiB then return exact end
  local spread = root(b.alike * b.alike
                      + DEVIATIONS * DEVIATIONS * b.square)
  for _, rest in ipairs(b.rest) do kept = kept + rest end
  kept = kept + math.max(spread, math.min(2 * spread, bytes // CHEAP - kept))
  return exact + math.min(kept, b.large * MiB)
end

return slack
