-- What scenarios find in Lua beside batch.* and estimator, which are C
-- functions: pairs in order, random numbers that repeat, cross. This file is
-- built into the program.
-- luacheck: globals pairs math cross

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
