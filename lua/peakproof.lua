-- What scenarios can call beside batch.layout, lengths, random, sequences and
-- tree, which the program provides. This file is built into the program; it
-- is called with the table "batch" and with check(table, name, keys), which
-- refuses unknown keys.
-- luacheck: globals pairs math cross
local batch, check = ...

-- pairs in order: numbers, then strings, then the rest as Lua holds them.
-- What a scenario builds must not depend on Lua's random hash seed.
local next, type, getmetatable, sort = next, type, getmetatable, table.sort

local function before(a, b)
  local ta, tb = type(a), type(b)
  if ta == tb then return a < b end
  return ta < tb
end

local function ordered(t)
  local keys, rest = {}, {}
  for k in next, t do
    local list = (type(k) == "number" or type(k) == "string") and keys or rest
    list[#list + 1] = k
  end
  sort(keys, before)
  for _, k in ipairs(rest) do keys[#keys + 1] = k end
  return keys
end

function pairs(t)
  local meta = getmetatable(t)
  if type(meta) == "table" and meta.__pairs then
    local f, s, k = meta.__pairs(t)
    return f, s, k
  end
  if type(t) ~= "table" then
    error("pairs takes a table, not a " .. type(t), 2)
  end
  local keys, i = ordered(t), 0
  return function()
    local v
    repeat                    -- a key may have been cleared meanwhile
      i = i + 1
      v = t[keys[i]]
    until v ~= nil or keys[i] == nil
    return keys[i], v
  end
end

-- Random numbers repeat: the first seed is fixed, and later ones are given.
local seed = math.randomseed
seed(0)
function math.randomseed(a, b)
  if a == nil then error("math.randomseed needs a seed", 2) end
  return seed(a, b or 0)
end

-- The numbers that "select" of batch.sequences stands for, as a list.
local function selection(t, count)
  local list = {}
  if type(t) == "table" then return t end
  if t == nil then t = "0-" .. count - 1 end
  for item in (t .. ","):gmatch("([^,]*),") do
    local a, b = item:match("^(%d+)%-(%d+)$")
    a, b = tonumber(a or item), tonumber(b or item)
    if not a or not b then error("select: bad item '" .. item .. "'", 3) end
    for i = a, b do list[#list + 1] = i end
  end
  return list
end

-- batch.pack{file, tree, select, tokens}: a list of batches, filled in the
-- order of select up to that many packed tokens each.
function batch.pack(t)
  check(t, "batch.pack", {"file", "tree", "select", "tokens"})
  if math.type(t.tokens) ~= "integer" or t.tokens < 1 then
    error("batch.pack: tokens: must be a number of tokens", 2)
  end
  local function make(pick)
    return batch.sequences{file = t.file, tree = t.tree, select = pick}
  end
  local waves, pick, current = {}, {}, nil
  for _, i in ipairs(selection(t.select, make(nil).sequences)) do
    pick[#pick + 1] = i
    local b = make(pick)
    if b.tokens > t.tokens then
      if not current then
        error("batch.pack: sequence " .. i .. " alone has " .. b.tokens ..
              " tokens, more than " .. t.tokens, 2)
      end
      waves[#waves + 1] = current
      pick, b = {i}, make{i}
      if b.tokens > t.tokens then
        error("batch.pack: sequence " .. i .. " alone has " .. b.tokens ..
              " tokens, more than " .. t.tokens, 2)
      end
    end
    current = b
  end
  waves[#waves + 1] = current
  return waves
end

-- cross{{"ep", {1, 2}}, {"layers", {8, 40}}}: every combination of the
-- values as tables {ep = 1, layers = 8}, ..., the last name changing fastest.
function cross(axes)
  local rows = {{}}
  for _, axis in ipairs(axes) do
    local name, values, more = axis[1], axis[2], {}
    for _, row in ipairs(rows) do
      for _, v in ipairs(values) do
        local new = {}
        for k, x in next, row do new[k] = x end
        new[name] = v
        more[#more + 1] = new
      end
    end
    rows = more
  end
  return rows
end
