-- The wave that is counted: real sequences, packed to about 97,000 tokens, both
-- ranks on one GPU.
return {
  name = "wave",
  about = "a wave of full size, to be counted",
  options = {waves = {default = 1, help = "how many", min = 1, max = 2}},
  cases = function(o)
    return {{
      name = "layers-40",
      model = "Qwen3.6-35B-A3B",
      layers = 40,
      cp = 2,
      ep = 2,
      lora_rank = 8,
      waves = o.waves,
      batch = batch.pack{file = "tau-airline-sequences", tokens = 97000}[1],
    }}
  end,
}
