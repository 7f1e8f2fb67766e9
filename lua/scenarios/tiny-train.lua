-- A tiny model learns one batch by heart: the loss of every wave falls.
--   peakproof run --device cpu tiny-train.lua -- waves=100
return {
  name = "tiny-train",
  about = "the loss curve of a tiny model over one batch",
  options = {
    waves = {help = "training steps", default = 40, min = 2, max = 1000},
    rate = {help = "learning rate", default = 0.01, min = 0.0},
  },
  cases = function(opt)
    local list = {}
    for _, s in ipairs{{1, 1}, {2, 2}} do
      list[#list + 1] = {
        name = ("train.cp%d.ep%d"):format(s[1], s[2]),
        model = "tiny",
        dtype = "f32",
        seed = 1,
        cp = s[1],
        ep = s[2],
        lora_rank = 4,
        learning_rate = opt.rate,
        waves = opt.waves,
        batch = batch.lengths{1, 70, 133},
      }
    end
    return list
  end,
}
