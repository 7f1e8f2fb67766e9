-- What the caching allocator adds to tensors that are alive together, as
-- src/price/slack.c has it (src/price/pricing.md 13).
local slack = {}

local MiB <const> = 1 << 20
local SMALLEST <const>, SEGMENT <const> = 512, 20 * MiB
local OWN_SEGMENT <const>, OWN_STEP <const> = 10 * MiB, 2 * MiB
local WORKSPACES <const>, WORKSPACE_REST <const> = 5, OWN_STEP - 1024
local DEVIATIONS <const>, ALIKE_DEVIATIONS <const> = 3, 1
local CHEAP <const>, SURE <const> = 50, 100
local LEAST_GRAIN <const>, ROOMS <const> = MiB // 4, 4

local function round_up(n, to) return (n + to - 1) // to * to end

-- ---- one block: what it keeps on average, and the square of that ----------

-- Where holes have one size, hole, it is known.
local function expected(bytes, hole)
  if hole == 0 then
    return 3 * MiB * MiB // (6 * math.min(bytes, OWN_SEGMENT) + 8 * MiB)
  end
  local rest = hole - round_up(bytes, SMALLEST)
  return rest > 0 and rest <= MiB and rest or 0
end

local function square(bytes, hole)
  if hole > 0 then return 0 end
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
  if a < LEAST_GRAIN or b < LEAST_GRAIN then return 1 end
  while b ~= 0 do a, b = b, a % b end
  return a
end

local function grain_of(bytes)
  local block = round_up(bytes, SMALLEST)
  if bytes < OWN_SEGMENT then return block end
  return join_grain(block, round_up(bytes, OWN_STEP))
end

-- Those that base does not divide are counted as odd; 0: none. hole: the size
-- of all holes but those of segments that fill, of which room is left; 0: they
-- have any.
function slack.blocks(base, hole)
  return {tensors = 0, large = 0, mean = 0, packed = 0, alike = 0, square = 0,
          grain = 0, base = base or 0, hole = hole or 0, room = {}, odd = 0,
          least = {}}
end

-- The five smallest, ascending.
local function add_least(b, x)
  local i = #b.least + 1
  while i > 1 and b.least[i - 1].bytes > x.bytes do i = i - 1 end
  table.insert(b.least, i, x)
  b.least[WORKSPACES + 1] = nil
end

local function rest_of(bytes, hole)
  return WORKSPACE_REST - bytes - expected(bytes, hole)
end

-- False: there are no large ones. own: their variance is summed.
local function count(b, n, bytes, own)
  if n == 0 or bytes == 0 then return false end
  b.tensors = b.tensors + n
  if bytes <= MiB then return false end
  local grain = grain_of(bytes)
  b.large = b.large + n
  b.grain = join_grain(b.grain, grain)
  if b.base > 0 and grain % b.base ~= 0 then b.odd = b.odd + n end
  for _ = 1, rest_of(bytes, b.hole) > 0 and math.min(n, WORKSPACES) or 0 do
    add_least(b, {bytes = bytes, square = own and square(bytes, b.hole) or 0})
  end
  return true
end

-- Into the smallest room that segments have, or into a new one.
local function lay(b, bytes)
  local block, at = round_up(bytes, SMALLEST), nil
  for i = 1, ROOMS do
    local left = b.room[i] or 0
    if left >= block and (at == nil or left < b.room[at]) then at = i end
  end
  local room = bytes >= OWN_SEGMENT and round_up(block, OWN_STEP) or SEGMENT
  if at then
    room = b.room[at]
  else
    for i = ROOMS, 1, -1 do
      if (b.room[i] or 0) == 0 then at = i end
    end
  end
  local rest = room - block
  if rest <= MiB then
    b.mean = b.mean + rest
  elseif at == nil then
    b.mean = b.mean + MiB       -- lost sight of
  end
  if at then b.room[at] = rest > MiB and rest or 0 end
end

-- n tensors of so many bytes, each in a hole of its own kind.
function slack.add(b, n, bytes)
  if not count(b, n, bytes, true) then return end
  for _ = 1, b.hole > 0 and expected(bytes, b.hole) == 0 and n or 0 do
    lay(b, bytes)
  end
  b.mean = b.mean + n * expected(bytes, b.hole)
  b.square = b.square + n * square(bytes, b.hole)
end

-- Made one after another when the layers' are gone.
function slack.fresh(b, n, bytes)
  if not count(b, n, bytes, true) then return end
  b.square = b.square + n * square(bytes, 0)
  if bytes >= OWN_SEGMENT then
    local rest = round_up(bytes, OWN_STEP) - bytes
    b.mean = b.mean + n * math.max(expected(bytes, 0),
                                      rest <= MiB and rest or 0)
    return
  end
  local fit = SEGMENT // bytes
  local rest = SEGMENT - fit * round_up(bytes, SMALLEST)
  if rest <= MiB then b.mean = b.mean + n // fit * math.max(0, rest) end
end

-- Alike: what one keeps more may keep.
function slack.alike(b, n, bytes)
  if not count(b, n, bytes, false) then return end
  b.mean = b.mean + n * expected(bytes, 0)
  b.square = b.square + n * n * square(bytes, 0)
end

-- Where others of so many bytes, or so many, have been freed, in a row.
local function hole_rest(bytes, hole)
  if hole <= MiB then return 0 end
  local row = (bytes + hole - 1) // hole
  local rest = row * hole - bytes
  return rest <= MiB and rest // math.max(2, row) or 0
end
function slack.in_hole(b, n, bytes, hole, other)
  if bytes <= MiB then return end
  local rest = math.max(hole_rest(bytes, hole), hole_rest(bytes, other))
  b.mean = b.mean + n * math.max(0, rest - expected(bytes, 0))
end

-- What blocks of three sizes, n of each a layer, keep of segments that they
-- share, at most, a layer: of the filling that leaves most, in as many segments
-- as there are blocks for.
local function that_fit(bytes, room)
  if bytes <= MiB or bytes >= OWN_SEGMENT then return 0 end
  return room // round_up(bytes, SMALLEST)
end
local function packed_rest(n, filled, rest)
  local least = math.maxinteger
  if rest <= 0 or rest > MiB then return 0 end
  for i = 1, 3 do
    if filled[i] > 0 then least = math.min(least, rest * n[i] // filled[i]) end
  end
  return least
end
function slack.packed(n, bytes)
  local most, block = 0, {}
  for i = 1, 3 do block[i] = round_up(bytes[i], SMALLEST) end
  for i = that_fit(bytes[1], SEGMENT), 0, -1 do
    local room = SEGMENT - i * block[1]
    for k = that_fit(bytes[2], room), 0, -1 do
      local left = room - k * block[2]
      local last = that_fit(bytes[3], left)
      most = math.max(most, packed_rest(n, {i, k, last},
                                        left - last * block[3]))
    end
  end
  return most
end

-- One that comes and goes beside them.
function slack.grain(b, bytes)
  if bytes > MiB then b.grain = join_grain(b.grain, grain_of(bytes)) end
end

-- Layer after layer alike.
function slack.repeats(b)
  b.alike, b.square = b.alike + root(b.square), 0
end

local SUMS <const> = {"tensors", "large", "mean", "packed", "alike", "square"}

-- With the base, the hole and the room of the first.
function slack.join(first, ...)
  local all = slack.blocks(first.base, first.hole)
  all.room = table.move(first.room, 1, ROOMS, 1, {})
  for _, b in ipairs{first, ...} do
    for _, key in ipairs(SUMS) do all[key] = all[key] + b[key] end
    all.odd = all.odd + b.odd
    all.grain = join_grain(all.grain, b.grain)
    for _, x in ipairs(b.least) do add_least(all, x) end
  end
  return all
end

-- Takes back what was joined, but for its grain and the smallest.
function slack.drop(b, other)
  for _, key in ipairs(SUMS) do b[key] = b[key] - other[key] end
end

-- Where no more than n of m lie in a hole that keeps something.
function slack.part(b, n, m)
  if n >= m then return b end
  local part = slack.join(b)
  part.mean = b.mean * n // m
  part.alike = root(b.alike * b.alike // m * n)
  return part
end

-- Gradients in segments of their own.
function slack.pack(b)
  local packed = slack.join(b)
  packed.mean, packed.alike = b.packed, 0
  return packed
end

-- What divides all sizes and shared segments; 0: less than LEAST_GRAIN does.
function slack.base(b)
  local base = join_grain(b.grain, SEGMENT)
  return base >= LEAST_GRAIN and base or 0
end

-- Where a hole that several fill ends: one multiple of the grain as often as
-- another.
local function end_rest(grain)
  return (grain + MiB // grain * grain) // 2
end

-- Of so many requested bytes in all.
function slack.bytes(b, bytes)
  local exact, kept, varies = b.tensors * SMALLEST, b.mean, b.square
  if #b.least == 0 and slack.base(b) > MiB then return exact end
  for _, x in ipairs(b.least) do
    local range = MiB - (WORKSPACE_REST - x.bytes)
    kept = kept + rest_of(x.bytes, b.hole)
    varies = varies - x.square + math.min(x.square, range * range // 4)
  end
  if b.hole > 0 then kept = math.max(kept, end_rest(b.base)) end
  local alike = ALIKE_DEVIATIONS * b.alike
  local spread = root(alike * alike + DEVIATIONS * DEVIATIONS * varies)
  kept = kept + math.max(spread, math.min(2 * spread, bytes // CHEAP - kept))
  kept = math.max(kept, bytes // SURE)
  return exact + math.min(kept, b.large * MiB)
end

return slack
