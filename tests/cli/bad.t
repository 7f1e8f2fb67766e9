# Bad input files: one line that names file, key and remedy, exit code 3, and
# nothing half-written.

$ peakproof run none.lua
!* peakproof: none.lua: No such file or directory, here or in */scenarios (peakproof list names those)
= 3
$ peakproof run .
! peakproof: .: Is a directory
= 3

+ syntax.lua
| return {
$ peakproof run syntax.lua
! peakproof: syntax.lua:2: unexpected symbol near <eof>
= 3

+ runtime.lua
| local function f(t)
|   return t.x
| end
| return {name = "r", cases = {f(nil)}}
$ peakproof run runtime.lua
! peakproof: runtime.lua:2: attempt to index a nil value (local 't')
!     runtime.lua:2: in local 'f'
!     runtime.lua:4: in main chunk
= 3

+ key.lua
| return {
|   name = "k",
|   caes = {},
| }
$ peakproof run key.lua
!* peakproof: key.lua:*: unknown key 'caes' (did you mean 'cases'?)
= 3

+ nocase.lua
| return {name = "n", cases = {}}
$ peakproof run nocase.lua
! peakproof: nocase.lua:1: cases: there are none
= 3

+ number.lua
| return 7
$ peakproof list number.lua
! peakproof: number.lua: a scenario must return a table (return {name = ..., cases = ...})
= 3

# Endless loops and memory without end, also inside pcall.

+ pcall.lua
| while true do pcall(function() while true do end end) end
$ peakproof run pcall.lua
! peakproof: pcall.lua:1: the script runs more than 200 million instructions (does a loop never end?)
= 3

+ memory.lua
| local t = {}
| while true do pcall(function() t[#t + 1] = ("x"):rep(1e7 + #t) end) end
$ peakproof run memory.lua
!* peakproof: memory.lua:*: the script *
!...
= 3

+ io.lua
| return {name = io.open("/etc/hostname"):read()}
$ peakproof run io.lua
! peakproof: io.lua:1: attempt to index a nil value (global 'io') (io is there with --unsafe alone; options after -- and csv.rows{file} need none)
!...
= 3

# A case with one thing wrong: case.lua takes it from its option.

+ case.lua
| return {
|   name = "c",
|   options = {
|     key = {help = "key to set", default = "", type = "string"},
|     value = {help = "its value", default = "", type = "string"},
|   },
|   cases = function(opt)
|     local c = {
|       name = "a", model = "Qwen3.6-35B-A3B", layers = 8, cp = 2, ep = 2,
|       batch = batch.lengths{1000, 1000},
|     }
|     if opt.key == "lengths" then
|       c.batch = batch.lengths{math.tointeger(opt.value)}
|     elseif opt.key == "tree" then
|       c.batch = batch.tree{file = opt.value}
|     elseif opt.key == "histogram" then
|       c.routing = {histogram = opt.value}
|     elseif opt.key ~= "" then
|       c[opt.key] = math.tointeger(opt.value) or opt.value
|     end
|     return {c}
|   end,
| }
$ peakproof run case.lua >table
$ peakproof run case.lua -- key=lora_rnk value=3
!* peakproof: case.lua:*: case 'a': unknown key 'lora_rnk' (did you mean 'lora_rank'?)
= 3
$ peakproof run case.lua -- key=layers value=0
!* peakproof: case.lua:*: case 'a': layers: must be from 1 to *, not 0
= 3
$ peakproof run case.lua -- key=layers value=99
!* peakproof: case.lua: case 'a': */Qwen3.6-35B-A3B.json: layers: 99 asked, the model has 40
= 3
$ peakproof run case.lua -- key=ep value=3
!* peakproof: case.lua:*: case 'a': ep: must divide cp, 2, not be 3
= 3
$ sed 's/cp = 2/cp = 3/' case.lua >three.lua; peakproof run three.lua -- key=ep value=3
!* peakproof: three.lua: case 'a': ep: 3 does not divide the 256 experts of Qwen3.6-35B-A3B
= 3
$ peakproof run case.lua -- key=cp value=65
!* peakproof: case.lua:*: case 'a': cp: must be from 1 to 64, not 65
= 3
$ peakproof run case.lua -- key=waves value=0
!* peakproof: case.lua:*: case 'a': waves: must be from 1 to *, not 0
= 3
$ peakproof run case.lua -- key=dtype value=f16
!* peakproof: case.lua:*: case 'a': dtype: unknown value 'f16' (did you mean 'bf16'?)
= 3
$ peakproof run case.lua -- key=lengths value=0
!* peakproof: case.lua:*: batch.lengths: item 1 must be an integer from 1 to *
!...
= 3
$ peakproof run case.lua -- key=lengths value=1099511627775
!* peakproof: case.lua:*: batch.lengths: *1099511627775*
!...
= 3
$ peakproof run --out big case.lua -- key=lengths value=2147483647 >table

# Configs.

$ peakproof run --out none case.lua -- key=model value=none.json
!* peakproof: case.lua:*: case 'a': model: no file 'none.json'*
= 3
+ cut.json
| {"model_type": "qwen3_next"
$ peakproof run --out none case.lua -- key=model value=cut.json
!* peakproof: case.lua: case 'a': cut.json:*: not JSON: *
= 3
+ bert.json
| {"model_type": "bert"}
$ peakproof run --out none case.lua -- key=model value=bert.json
!* peakproof: case.lua: case 'a': bert.json: model_type: "bert" is not supported (supported: *
= 3
$ sed 's/"num_experts": 256/"num_experts": -1/' $TOP/lua/models/Qwen3.6-35B-A3B.json >minus.json; peakproof run --out none case.lua -- key=model value=minus.json
!* peakproof: case.lua: case 'a': minus.json: *num_experts: -1 is not from *
= 3
$ sed 's/"hidden_size": 2048/"hidden_size": 4611686018427387904/' $TOP/lua/models/Qwen3.6-35B-A3B.json >big.json; peakproof run --out none case.lua -- key=model value=big.json
!* peakproof: case.lua: case 'a': big.json: *hidden_size: *
= 3

# CSV files.

$ peakproof run --out none case.lua -- key=tree value=none.csv
!* peakproof: case.lua:*: batch.tree: file: no file 'none.csv'*
!...
= 3
+ header.csv
| segment,tokens
| 0,5
$ peakproof run --out none case.lua -- key=tree value=header.csv
!* peakproof: case.lua:*: batch.tree: file: header.csv:1: no column 'parent' (it has segment,tokens)
!...
= 3
+ orphan.csv
| segment,parent,tokens
| 0,-1,5
| 1,7,5
$ peakproof run --out none case.lua -- key=tree value=orphan.csv
!* peakproof: case.lua:*: batch.tree: file: orphan.csv:3: *
!...
= 3
+ cycle.csv
| segment,parent,tokens
| 0,1,5
| 1,0,5
$ peakproof run --out none case.lua -- key=tree value=cycle.csv
!* peakproof: case.lua:*: batch.tree: file: cycle.csv*
!...
= 3
+ ragged.csv
| segment,parent,tokens
| 0,-1
$ peakproof run --out none case.lua -- key=tree value=ragged.csv
!* peakproof: case.lua:*: batch.tree: file: ragged.csv:2: 2 cells where the header has 3
!...
= 3
+ huge.csv
| segment,parent,tokens
| 0,-1,9223372036854775807
$ peakproof run --out none case.lua -- key=tree value=huge.csv
!* peakproof: case.lua:*: batch.tree: file: huge.csv:2: tokens: *
!...
= 3
+ routes.csv
| wave,layer,rank,expert,rows
| 0,0,0,999,5
$ peakproof run --out none case.lua -- key=histogram value=routes.csv
! peakproof: case.lua: case 'a': routing: the histogram has 1 waves, 1 layers and 1000 experts (1, 8 and at most 256 are needed)
= 3

+ hot.lua
| return {cases = {{name = "a", model = "tiny", cp = 2, ep = 2,
|   batch = batch.lengths{300}, routing = {{hot_expert = 7, factor = 2},
|     {hot_expert = 8, factor = 2}}}}}
$ peakproof run --out none hot.lua
! peakproof: hot.lua: case 'a': routing: hot_expert: must be below the model's experts, 8, not 8
= 3

$ ls none
! ls: cannot access 'none': No such file or directory
= 2

# Estimators.

+ wrong.lua
| estimator{name = "w", price = function() return {raw = "much"} end}
$ peakproof run --out o --estimator wrong.lua case.lua >table
!* peakproof: c/a: *raw*
!...
= 3
+ twice.lua
| estimator{name = "per-rank", price = function() return {raw = 1} end}
$ peakproof run --out o --estimator twice.lua case.lua >table
!* peakproof: *twice.lua:*per-rank*
!...
= 3
$ peakproof run --out o --estimator none.lua case.lua
! peakproof: none.lua: No such file or directory
= 3

# What a scenario prints is no more than text.

+ says.lua
| print("a\27[31mb\u{9b}31m\0c", "\xff", "d\te\nf")
| return {cases = {{name = "a", model = "tiny", batch = batch.lengths{1}}}}
$ peakproof list says.lua 2>said >list; cat -vT said
> a?[31mb??31m?c^I?^Id^Ie
> f
