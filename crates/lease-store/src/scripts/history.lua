-- The last reigns of a key, oldest first, and the running one. Answers: {tenure:o or '', reign...}.
incarnate()
local state, _, o = settle(spell(K[GLOBALS + 1]), nil)
tell(happened)
local reigns = call('LRANGE', k[GLOBALS + 6], -32, -1)
table.insert(reigns, 1, state == 'h' and o or '')
return reigns
