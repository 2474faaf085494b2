-- The last reigns of a key, oldest first, and the running one. Answers: {tenure:o or '', reign...}.
incarnate()
spell(K[1])
local state, _, o = settle()
tell(happened)
local reigns = call('LRANGE', k[6], -32, -1)
table.insert(reigns, 1, state == 'h' and o or '')
return reigns
