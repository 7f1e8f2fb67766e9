-- The whole model, one real sequence per wave: the cold first waves of all
-- 200 recorded sequences at EP1 and EP2, on two ranks.
local file = "tau-airline-sequences"

return {
  name = "full-stack",
  about = "40 layers, one real sequence per cold wave, EP1 and EP2",
  options = {
    sequences = {help = "how many of the recorded sequences", default = 200,
                 min = 1, max = 200},
  },
  cases = function(opt)
    local list = {}
    for _, ep in ipairs{1, 2} do
      for i = 0, opt.sequences - 1 do
        list[#list + 1] = {
          name = ("ep%d.seq-%03d"):format(ep, i),
          model = "Qwen3.6-35B-A3B",
          cp = 2,
          ep = ep,
          lora_rank = 8,
          batch = batch.sequences{file = file, select = i},
        }
      end
    end
    return list
  end,
}
