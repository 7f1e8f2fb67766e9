-- Shapes that per-rank pricing does not cover; estimates say why.
local function case(name, about, shape)
  local c = {
    name = name,
    about = about,
    model = "Qwen3.6-35B-A3B",
    layers = 8,
    cp = 2,
    ep = 1,
    lora_rank = 8,
    batch = batch.lengths{9000, 7000, 5000},
  }
  for key, value in pairs(shape) do c[key] = value end
  return c
end

return {
  name = "fallbacks",
  about = "where the per-rank estimate falls back or declines",
  cases = {
    case("cp1", "one rank", {cp = 1}),
    case("cp4", "four ranks", {cp = 4}),
    case("softmax-offset", "attention with a softmax offset",
         {softmax_offset = true}),
    case("other-attention", "not the project's context-parallel attention",
         {cp_attention = false}),
    case("dense", "a dense member of the family",
         {model = "Qwen3.6-27B", layers = 8}),
  },
}
