-- The last reigns of a key, newest first, and the running one. Answers: {tenure:o or '', reign...}.
incarnate()
local state, _, o = settle(GLOBALS, nil)
tell(happened)
local reigns = call('LRANGE', k[GLOBALS + 6], 0, 31)
table.insert(reigns, 1, state == 'h' and o or '')
return reigns
