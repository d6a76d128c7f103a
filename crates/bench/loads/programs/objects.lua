-- Tables, strings and closures that live for a while; prints a digest.

local seed = 1
local function random(below)
  seed = (seed * 1103515245 + 12345) % 2147483648
  return seed // 65536 % below
end

local digest = 0
local function add(number)
  digest = (digest * 31 + number) % 1000000007
end

local function trees(depth)
  if depth == 0 then return { value = 1 } end
  return { left = trees(depth - 1), right = trees(depth - 1), value = depth }
end

local function sum(tree)
  if not tree.left then return tree.value end
  return tree.value + sum(tree.left) + sum(tree.right)
end

local function text()
  local words = {}
  for i = 1, 40000 do
    words[i] = string.format("w%d-%s", random(9000), string.rep("x", random(40)))
  end
  local joined = table.concat(words, " ")
  local counts = {}
  for word in joined:gmatch("w%d+") do counts[word] = (counts[word] or 0) + 1 end
  local keys = {}
  for key in pairs(counts) do keys[#keys + 1] = key end
  table.sort(keys)
  add(#joined + #keys + #joined:gsub("x+", "y"))
end

local function queue()
  local live = {}
  for i = 1, 200000 do
    local number = random(1000)
    live[i % 5000] = function() return number + i end
  end
  for i = 0, 4999 do add(live[i]()) end
end

local function rows()
  local all = {}
  for i = 1, 60000 do
    all[i] = { id = i, name = "name" .. random(100000), tags = { random(9), random(9), random(9) } }
  end
  table.sort(all, function(a, b) return a.name < b.name or (a.name == b.name and a.id < b.id) end)
  for i = 1, #all, 1000 do add(all[i].id + all[i].tags[2]) end
end

for _ = 1, 3 do
  add(sum(trees(15)))
  text()
  queue()
  rows()
end
print(digest)
