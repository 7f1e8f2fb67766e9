-- What tests/device/run.sh --dry runs in place of its waves and scenarios: the
-- same names, so small that emulated GPU threads can compute them.
local list = {}
for _, name in ipairs{"layers-8", "layers-40", "ragged.cp1.ep1",
                      "ragged.cp2.ep2"} do
  list[#list + 1] = {
    name = name,
    model = "tiny",
    dtype = "f32",
    seed = 1,
    cp = name:find("cp1") and 1 or 2,
    ep = name:find("cp1") and 1 or 2,
    lora_rank = 4,
    waves = 2,
    batch = batch.lengths{1, 20, 13},
  }
end

return {
  name = "rehearsal",
  about = "the stages of tests/device/run.sh, without a GPU",
  cases = list,
}
