-- A tiny model learns the text of the licence by heart, its bytes being the
-- tokens: the loss falls from wave to wave, on two ranks as on one. In f64 they
-- stay together to 13 digits, by any BLAS kernel. In f32 they part after eight
-- waves or more: sums in another order (other ranks, another kernel) turn
-- routes of near ties, and a GPU has no f64.
--   peakproof run --device cpu tiny-train.lua -- waves=100
--   peakproof run --device cuda tiny-train.lua -- dtype=f32
return {
  name = "tiny-train",
  about = "the loss curve of a tiny model over one text",
  options = {
    waves = {help = "training steps", default = 20, min = 2, max = 1000},
    rate = {help = "learning rate", default = 0.003, min = 0.0},
    dtype = {help = "of activations and weights", default = "f64",
             values = {"f64", "f32", "bf16"}},
  },
  cases = function(opt)
    local list = {}
    for _, s in ipairs{{1, 1}, {2, 2}} do
      list[#list + 1] = {
        name = ("train.cp%d.ep%d"):format(s[1], s[2]),
        model = "tiny",
        dtype = opt.dtype,
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
