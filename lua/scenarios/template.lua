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
