-- Packed waves: the recorded sequences, as the tree of their shared prefixes,
-- cut into waves of about as many tokens as the published real batch.
local file = "tau-airline-sequences"

-- Sequences 0, 4, 8, ... are the first trials of their tasks. Trials of one
-- task share more of their prefix than tasks do.
local orders = {
  file = function() return nil end,
  trials = function()
    local list = {}
    for trial = 0, 3 do
      for i = trial, 199, 4 do list[#list + 1] = i end
    end
    return list
  end,
}

return {
  name = "real-waves",
  about = "packed waves of real sequences that share prefixes",
  options = {
    tokens = {help = "packed tokens a wave may have", default = 97000,
              min = 20000},
    order = {help = "which sequences stand together", default = "file",
             values = {"file", "trials"}},
  },
  cases = function(opt)
    local list = {}
    local waves = batch.pack{file = file, tokens = opt.tokens,
                             select = orders[opt.order]()}
    for _, ep in ipairs{1, 2} do
      for i, wave in ipairs(waves) do
        list[#list + 1] = {
          name = ("ep%d.wave-%02d"):format(ep, i - 1),
          about = wave.sequences .. " sequences",
          model = "Qwen3.6-35B-A3B",
          cp = 2,
          ep = ep,
          lora_rank = 8,
          waves = 2,
          batch = wave,
        }
      end
    end
    return list
  end,
}
