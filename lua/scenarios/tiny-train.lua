-- A tiny model learns the text of the licence by heart, its bytes being the
-- tokens: the loss falls from wave to wave, on two ranks as on one. At a rate
-- of 0.01 they part after six waves: f32 sums in another order (other ranks,
-- another BLAS kernel) turn routes of near ties.
--   peakproof run --device cpu tiny-train.lua -- waves=100
return {
  name = "tiny-train",
  about = "the loss curve of a tiny model over one text",
  options = {
    waves = {help = "training steps", default = 20, min = 2, max = 1000},
    rate = {help = "learning rate", default = 0.003, min = 0.0},
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
        tokens = "license.txt",
        batch = batch.lengths{1, 70, 133, 200},
      }
    end
    return list
  end,
}
