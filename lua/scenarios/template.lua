-- Copy this file, change what you need, and run it:
--   peakproof run my.lua -- rows=30000
return {
  about = "one line for the list of scenarios",
  options = {                     -- set behind "--" on the command line
    rows = {help = "tokens of the longest sequence", default = 20000,
            min = 1000},
  },
  cases = function(opt)           -- or a plain list of cases
    return {
      {
        name = "mine",            -- a row of the report
        model = "Qwen3.6-35B-A3B",      -- lua/models, or your config.json
        layers = 8,               -- left out: all of them
        cp = 2, ep = 2,           -- context and expert parallel ranks
        lora_rank = 8,
        waves = 2,                -- the first is cold, later ones are warm
        batch = batch.lengths{opt.rows, 5000, 5000},
      },
    }
  end,
}
-- Other keys of a case, and what they are when left out:
--   about = "one line"           cp, ep, tp, pp = 1
--   lora_alpha = 32              seed = 0 (of random weights)
--   dtype = "bf16", "f32", "f64" weights = "random", or a checkpoint folder
--   tokens = a file of text      head_rows = labelled rows (all)
--   routing = "balanced", {cv = 1.0, seed = 1}, {share = 1.1, rank = 0},
--             {histogram = "f.csv"}
--   plan = {cut = rows of rank 0, profile = "new" or "old"}
--   device_bytes = "80G" (no limit)     learning_rate = 0 (no step)
--   tolerance = {under = 0, over = 25}  raw errors in percent, for --check
--   published = {before_cold, before_warm, after_cold, after_warm}
--   output_bytes = 0, price_head_rows = head_rows, hybridep_held_rows,
--   softmax_offset = false, cp_attention = true: what estimators are told
-- Other batches:
--   batch.random{count = 8, length = {100, 9000}, seed = 1}
--   batch.tree{parents = {-1, 0, 0}, lengths = {70, 5, 133}}
--   batch.sequences{file = "tau-airline-sequences", select = "0-19"}
--   batch.pack{file = ..., tokens = 97000}: a list of them
--   batch.layout{attention_rows, gdn_rows, stages}: see lua/layouts.lua
-- An estimator of your own: estimator{name = "mine", price = function(facts)
--   return {raw = bytes, terms = {gdn = bytes, ...}} end}
