-- The two layouts of the published accuracy table (CP2): rows of each rank in
-- attention and GDN layers, and the attention stages each rank runs. Their
-- tokens are not public, so devices that compute refuse them.
local layouts = {}

-- The real batch, as recorded: 96,794 tokens. Rank 1 attends to its own rows
-- and, with all its queries, to 16,504 rows of rank 0.
layouts.real = batch.layout{
  attention_rows = {52480, 44314},
  gdn_rows = {48194, 48600},
  stages = {
    {{q = 52480, k = 52480}},
    {{q = 44314, k = 44314, q_len = 44352, k_len = 44352},
     {q = 44314, k = 16504, q_len = 44352, k_len = 16512, q_full = true}},
  },
}

-- The random batch. Published: rank 1's rows and stages. The rest is a
-- reconstruction: ten independent sequences whose plan has exactly these
-- figures (random.lua plans them from their lengths).
layouts.random = batch.layout{
  attention_rows = {105600, 105153},
  gdn_rows = {105626, 105127},
  stages = {
    {{q = 105600, k = 105600}},
    {{q = 105153, k = 105153, q_len = 105216, k_len = 105216},
     {q = 768, k = 20608, q_full = false}},
  },
}

return layouts
