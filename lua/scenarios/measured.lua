-- Measured peaks of the traced software, or of a cluster of one's own, run
-- again: each row of a table like reports/published/measured-memory.csv as
-- two cases, ID (forward to hidden states, the first wave and a repeat) and
-- ID.loss (with a mean-square loss and backward). What the columns mean is in
-- src/step/evidence.md; those of `needed` must be there and full.
local needed = {"id", "model", "tp", "cp", "recompute", "lengths",
                "packed_rows", "forward_peak"}
-- Beside them these may be there, of which rank_rows, baseline_last and the
-- like are for readers; another is a mistake, as a misspelt one would be lost.
local columns = {
  "series", "ep", "modules", "compiled", "concentrated_routing",
  "shared_prefix", "rank_rows", "lora_rank", "forward_first", "forward_repeat",
  "retained", "forward_backward_peak", "baseline_first", "baseline_last",
  "published_estimate", table.unpack(needed)}

-- A first forward of a process holds 32 MiB + 1 KiB of GEMM workspace and a
-- 32 MiB BLAS handle that later ones find.
local COLD_BYTES = 67109888
-- Of a mixture of experts, by its grouped products, 134,221,824 B more; its
-- first backward leaves another handle.
local MIXTURE_COLD_BYTES, HANDLE_BYTES = 201331712, 33554432
-- Published names of models whose sizes another file has.
local SAME_SIZES = {["Qwen3.8-27B"] = "Qwen3.6-27B"}
-- Models that make a rotary table for each new length, bytes a packed row.
local ROTARY_BYTES = {["Qwen3-1.7B"] = 512}
-- Which version printed the estimates of a published series.
local PRINTED_BY = {
  A = "retained-flat", B = "retained-split6", final = "retained-states",
  before_segment_states = "retained-parts64",
  segment_state_negative_control = "retained-parts64",
  eager_control = "retained-parts64",
  cold_workspace_negative_control = "retained-parts",
  unfused_negative_control = "retained-split4", CP = "retained-rank",
}
-- First shapes of a process that the published table does not mark.
local FIRST = {M145 = true, M147 = true, M150 = true, M153 = true,
               M156 = true}

local function reader(row, where)
  local function fail(column, why)
    error(where .. ": " .. column .. ": " .. why, 0)
  end
  local function int(column, least)
    local text = row[column]
    if text == nil then return nil end
    local n = math.tointeger(tonumber(text))
    if n == nil or n < (least or 0) then
      fail(column, "must be a whole number" ..
           (least and " from " .. least .. " on" or "") ..
           " (bytes and rows, no unit), not '" .. text .. "'")
    end
    return n
  end
  -- nil where the cell is empty
  local function yes(column)
    local text = (row[column] or ""):lower()
    if text == "" then return nil end
    if text ~= "yes" and text ~= "no" then
      fail(column, "must be yes or no, not '" .. row[column] .. "'")
    end
    return text == "yes"
  end
  return int, fail, yes
end

-- "a+b" or "n*k": k sequences of n.
local function lengths_of(text, fail)
  local list = {}
  for part in (text .. "+"):gmatch("([^+]*)%+") do
    local n, k = (part:find("*", 1, true) and part or part .. "*1")
                 :match("^(%d+)%*(%d+)$")
    n, k = math.tointeger(tonumber(n)), math.tointeger(tonumber(k))
    if n == nil or k == nil or n < 1 or n > 2147483647 or k < 1 or
       k > 65536 then
      fail("lengths", "must be like 4096, 4096+2048 or 512*8, not '" ..
           text .. "'")
    end
    for _ = 1, k do list[#list + 1] = n end
  end
  return list
end

-- The sequences one after another, or below the prefix that they share.
local function batch_of(list, prefix)
  if prefix == 0 then return batch.lengths(list) end
  local parents, lengths = {-1}, {prefix}
  for i, n in ipairs(list) do
    parents[i + 1], lengths[i + 1] = 0, n - prefix
  end
  return batch.tree{parents = parents, lengths = lengths}
end

local RECOMPUTE = {full = true, none = true, selective = true}
local MODULES = {core_attn = true, mlp = true, moe = true}

local function modules_of(text, fail)
  local list = {}
  for word in (text or ""):gmatch("[^+]+") do
    if not MODULES[word] then
      fail("modules", "must be core_attn, mlp and moe joined by +, as in " ..
           "core_attn+mlp, not '" .. text .. "'")
    end
    list[#list + 1] = word
  end
  return #list > 0 and list or nil
end

-- Columns that a table needs, and ids of which cases can be named.
local function check_table(rows, lines, path)
  local there, seen = {}, {}
  if #rows == 0 then error(path .. ": no rows behind the header", 0) end
  for i, row in ipairs(rows) do
    local id, at = row.id or "", path .. ":" .. lines[i] .. ": id: "
    for column in pairs(row) do there[column] = true end
    if seen[id] then
      error(at .. "'" .. id .. "' stands in line " .. seen[id] .. " already",
            0)
    elseif id ~= "" and (#id > 80 or not id:find("^[%w._][%w._+=@-]*$")) then
      error(at .. "up to 80 letters, digits and ._+=@-, none of +=@- first, " ..
            "not '" .. id .. "'", 0)
    end
    seen[id] = id ~= "" and lines[i] or nil
  end
  for _, column in ipairs(needed) do
    if not there[column] then
      error(path .. ":1: " .. column .. ": no such column, or nothing in " ..
            "it (" .. table.concat(needed, ", ") .. " are needed)", 0)
    end
  end
end

-- Bytes that only a first forward holds inside the printed maximum.
local function cold_bytes(row, int, packed, published)
  local first, again = int("forward_first"), int("forward_repeat")
  if first and again then return first - again, first - again > 50000000 end
  local is_first = published and (FIRST[row.id] or
                                  (row.series == "A" and packed == 1024))
  local bytes = is_first and COLD_BYTES or 0
  return bytes + packed * (published and ROTARY_BYTES[row.model] or 0),
         is_first
end

-- Layers of a mixture hold on to what they last routed until they route again:
-- a forward gives back what the one before left in its baseline (evidence.md
-- 1). So its bytes are counted from where its process began. What to add to a
-- printed maximum for that; nil where the table does not tell.
local function held_bytes(int, start)
  local base = int("baseline_first")
  if not (start and base and int("forward_first")) then return nil end
  if base == start then return -MIXTURE_COLD_BYTES end
  return base - start - MIXTURE_COLD_BYTES - HANDLE_BYTES
end

-- The lowest baseline of all rows on as many ranks: of a process that begins.
local function starts_of(rows)
  local start = {}
  for _, row in ipairs(rows) do
    local base = math.tointeger(tonumber(row.baseline_first))
    local key = table.concat({row.model or "", row.tp or "", row.cp or "",
                              row.ep or ""}, " ")
    row.start_key = key
    if base and (start[key] == nil or base < start[key]) then
      start[key] = base
    end
  end
  return start
end

-- Backward of a published cell that lies about 60 MiB above every reading.
local UNEXPLAINED = {M002 = "about 60 MiB above every reading, cause unknown"}

-- Choices of the step that the cells decide between, made the other way.
local SWITCHES = {"norm-freed", "v-copied", "fused", "qkv-sliced",
                  "embedding-whole", "adapter-scaled", "residual-fused",
                  "weights-apart"}

-- How the rows of a mixture were routed, and what to say of it.
local function routing_of(concentrated, ep, published)
  if ep == 1 then return nil, nil end
  if concentrated then
    return {share = ep, rank = 0}, "every row routed to experts of one rank"
  end
  return "balanced", published and "random routing, taken as even" or
         "routing taken as even"
end

-- A config that a table names beside itself.
local function model_path(model, folder)
  if model:find("%.json$") and model:sub(1, 1) ~= "/" then
    return folder .. model
  end
  return model
end

-- Both cases of a row, and its forward with each switch where those count.
local function cases_of(row, where, folder, published, start)
  local int, fail, yes = reader(row, where)
  for _, column in ipairs(needed) do
    if row[column] == nil then fail(column, "missing") end
  end
  local list, packed = lengths_of(row.lengths, fail), int("packed_rows", 1)
  local tp, cp, ep = int("tp", 1), int("cp", 1), int("ep", 1) or 1
  local logical, prefix = 0, int("shared_prefix") or 0
  for _, n in ipairs(list) do
    logical = logical + n
    if n <= prefix then fail("shared_prefix", "is no shorter than " .. n) end
  end
  -- shared only where fewer rows were packed; padded to a multiple of tp
  if prefix > 0 and packed >= logical then prefix = 0 end
  local rows = logical - (#list - 1) * prefix
  if packed < rows or packed >= rows + tp then
    fail("packed_rows", "must be " .. rows .. " rounded up to a multiple of "
         .. tp .. ", not " .. packed ..
         (prefix == 0 and packed < logical and
          " (fewer only where shared_prefix says what is shared)" or ""))
  end
  if not RECOMPUTE[row.recompute] then
    fail("recompute", "must be full, none or selective, not '" ..
         row.recompute .. "'")
  end
  local cold, is_first = cold_bytes(row, int, packed, published)
  local printed = int("published_estimate")
  local routing, note = routing_of(yes("concentrated_routing"), ep, published)
  local modules = modules_of(row.modules, fail)
  if row.recompute == "selective" and not modules then
    fail("modules", "missing: selective recompute needs one of core_attn, " ..
         "mlp and moe")
  end
  local held = published and ep > 1 and held_bytes(int, start) or nil
  local by = row.recompute == "full" and "heuristic" or
             PRINTED_BY[row.series or ""]
  local estimators = {"heuristic", "retained-states", "retained-rank",
                      "kept-rank"}
  if row.recompute == "full" then estimators = {"heuristic", "kept-rank"} end
  if by == nil then printed = nil end
  if printed and by ~= "heuristic" and by ~= "retained-states" and
     by ~= "retained-rank" then
    estimators[#estimators + 1] = by
  end
  local function case(name, wave, measured)
    measured.series = row.series or "measured"
    return {
      name = name,
      origin = where,
      model = SAME_SIZES[row.model] or model_path(row.model, folder),
      tp = tp, cp = cp, ep = ep,
      routing = routing,
      lora_rank = int("lora_rank") or 1,
      recompute = row.recompute,
      recompute_modules = modules,
      compiled = yes("compiled") ~= false,
      wave = wave,
      waves = 2,
      batch = batch_of(list, prefix),
      estimators = estimators,
      measured = measured,
    }
  end
  local forward, kept = int("forward_peak", 1), int("retained")
  local backward = int("forward_backward_peak", 1)
  local peak, first = int("forward_repeat", 1) or forward - cold,
                      int("forward_first", 1)
  if held then
    peak, first, cold = first + held, nil, -held
    note = note .. ", bytes from where its process began"
  end
  local result = {case(row.id, "hidden", {
    peak = peak,
    first = first,
    retained = kept and kept - cold,
    estimate = printed, estimator = printed and by,
    note = note,
  })}
  if backward then
    result[2] = case(row.id .. ".loss", "hidden-loss", {
      peak = backward - cold,
      retained = kept and kept - cold,
      note = note or (is_first and "first shape: cold bytes of backward in " ..
                      "the maximum") or (published and UNEXPLAINED[row.id])
             or nil,
    })
  end
  local large = ep == 1 and cp == 1 and
                packed >= (row.recompute == "full" and 2048 or 400)
  for _, switch in ipairs(large and SWITCHES or {}) do
    local c = case(row.id .. "." .. switch, "hidden",
                   {peak = peak})
    c.otherwise, c.estimators = {switch}, {}
    result[#result + 1] = c
  end
  return result
end

-- The published table lies beside lua/ in the source tree, and in the data
-- folder where the program is installed.
local PUBLISHED = "../../reports/published/measured-memory.csv"

local function read(name)
  local found, rows, lines, path = pcall(csv.rows, {file = name,
                                                    columns = columns})
  if not found and name == PUBLISHED then
    return csv.rows{file = "../published/measured-memory.csv",
                    columns = columns}
  elseif not found then
    error(rows, 0)
  end
  return rows, lines, path
end

return {
  name = "measured",
  about = "measured peaks of dense models and of a MoE, in every mode",
  options = {
    data = {default = PUBLISHED,
            help = "a table with the columns of measured-memory.csv"},
  },
  cases = function(opt)
    local rows, lines, path = read(opt.data)
    -- what the published table leaves to its readers holds for it alone
    local published = path:match("measured%-memory%.csv$") ~= nil
    check_table(rows, lines, path)
    local list, start = {}, starts_of(rows)
    for i, row in ipairs(rows) do
      for _, c in ipairs(cases_of(row, path .. ":" .. lines[i],
                                  path:match("^.*/") or "", published,
                                  start[row.start_key])) do
        list[#list + 1] = c
      end
    end
    return list
  end,
}
