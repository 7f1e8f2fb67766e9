-- Full-size waves for one GPU that both ranks share: real sequences, as the
-- tree of their shared prefixes, packed to about 97,000 tokens, at EP2.
local wave = batch.pack{file = "tau-airline-sequences", tokens = 97000}[1]

local list = {}
for _, layers in ipairs{8, 40} do
  list[#list + 1] = {
    name = "layers-" .. layers,
    model = "Qwen3.6-35B-A3B",
    layers = layers,
    cp = 2,
    ep = 2,
    lora_rank = 8,
    waves = 2,
    batch = wave,
  }
end

return {
  name = "waves",
  about = "full-size waves on one GPU",
  cases = list,
}
