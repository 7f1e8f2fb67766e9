-- The published random batch from sequence lengths instead of a recorded
-- layout. The lengths are a reconstruction: ten independent sequences whose
-- plan has every published figure of that batch (rank 1: 105,153 rows, and
-- 768 queries over 20,608 keys of rank 0).
local lengths = batch.lengths{
  21248, 21248, 21248, 21248, 21376, 20877, 20877, 20877, 20877, 20877,
}

local list = {}
for _, c in ipairs(cross{{"ep", {2, 1}}, {"layers", {8, 40}}}) do
  list[#list + 1] = {
    name = ("lengths-%d.ep%d"):format(c.layers, c.ep),
    about = "random weights, " .. c.layers .. " layers, planned",
    model = "Qwen3.6-35B-A3B",
    layers = c.layers,
    cp = 2,
    ep = c.ep,
    lora_rank = 8,
    waves = 2,
    batch = lengths,
  }
end

return {
  name = "random",
  about = "the random batch, planned from reconstructed lengths",
  cases = list,
}
